"""Which study a command means, and whether it begins or goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from remote.study import file as format
from remote.study.folder import SUFFIX, StudyFolder
from remote.study.progress import Progress
from remote.study.reader import StudyError
from remote.study.study import Study

QUICK = "-quick"
"""What the name of a study's quick variant ends with."""


@dataclass(frozen=True)
class Call:
    """How a study is called. `given` are job fields of the command line, `places` its options for
    hosts, both without those that are not given. `origin` names the study in messages."""

    text: str
    given: Mapping[str, Any]
    places: Mapping[str, Any]
    quick: bool
    origin: str = ""

    def study(self, name: str) -> Study:
        """The study. Raises: StudyError."""
        return format.parse(name, self.text, self.given, file=self.origin, quick=self.quick)


def find(
    name: str, runs_dir: Path, given: Mapping[str, Any], places: Mapping[str, Any], *, quick: bool
) -> tuple[StudyFolder, Call]:
    """The directory of the study that is meant, and how to call it: a file, a bundled study, or one
    that has been started. What the command line leaves out is as in the call that started it.
    Raises: StudyError."""
    started = StudyFolder.of(runs_dir, name)
    if started.exists and not os.path.isfile(name) and name not in format.bundled():
        call = Call(started.text(), given, places, quick, str(started.path))
        return started, _completed(started, call)
    title, text = format.find(name)
    folder = StudyFolder.of(runs_dir, title + (QUICK if quick else ""))
    call = Call(text, given, places, quick, name)
    return folder, _completed(folder, call) if folder.exists else call


def _completed(folder: StudyFolder, call: Call) -> Call:
    """The call with what the first call said and this one leaves out."""
    before = folder.place()
    return replace(
        call,
        given=call.given or before.get("given", {}),
        places=call.places or before.get("places", {}),
        quick=call.quick or bool(before.get("quick")),
    )


def known(folder: StudyFolder, study: Study) -> Progress:
    """The progress of a study that may not have been started."""
    return Progress.of(study, folder.entries())


@contextmanager
def begun(folder: StudyFolder, study: Study, call: Call, *, new: bool) -> Iterator[None]:
    """Hold a study that begins or goes on. `new`: keep what there is beside, and begin.

    Raises: StudyError, also where another process runs it, or where it was started with other
    settings.
    """
    if folder.exists and new:
        with folder.held():
            beside = f"{folder.name}-{datetime.now():%Y%m%d-%H%M%S}{SUFFIX}"
            folder.path.rename(folder.path.with_name(beside))
    with folder.held():
        if folder.exists:
            _check_equal(folder, study, call)
        given, places = dict(call.given), dict(call.places)
        folder.keep(call.text, {"given": given, "places": places, "quick": call.quick})
        yield


def _check_equal(folder: StudyFolder, study: Study, call: Call) -> None:
    """Check that the runs so far fit the study as it is now: cells and repetitions may be added.
    Raises: StudyError."""
    place = folder.place()
    before = Call(folder.text(), place.get("given", {}), place.get("places", {}), call.quick)
    old = {cell.key: cell for cell in before.study(folder.name).cells}
    changed = [
        cell.key
        for cell in study.cells
        if cell.key in old and (cell.job, cell.place) != (old[cell.key].job, old[cell.key].place)
    ]
    reasons = []
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        reasons.append(f"the settings of {changed[0]}{more}")
    if dict(before.places) != dict(call.places):
        reasons.append(f"the hosts ({_words(before.places)}, now {_words(call.places)})")
    if reasons:
        raise StudyError(
            f"{folder.name} has been started, and since then changed: {' and '.join(reasons)}. "
            "Begin anew with --new, which keeps the results so far beside, or undo the change"
        )


def _words(places: Mapping[str, Any]) -> str:
    """Options as a person types them."""
    return " ".join(f"--{key} {value}" for key, value in places.items()) or "no options"
