"""Which study a command means, and whether it begins or goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from remote.study import file as format
from remote.study.folder import STUDY, SUFFIX, StudyFolder
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
        title, text, origin = name.removesuffix(QUICK) if quick else name, "", ""
    else:
        (title, text), origin = format.find(name), name
    folder = StudyFolder.of(runs_dir, title + (QUICK if quick else ""))
    if not origin:
        of = folder if folder.exists else started
        text, origin = of.text(), str(of.path / STUDY)
    call = Call(text, given, places, quick, origin)
    return folder, _completed(folder, call) if folder.exists else call


def _completed(folder: StudyFolder, call: Call) -> Call:
    """The call with what the first call said and this one leaves out. Hosts that somebody else
    named are not reached."""
    before = folder.place()
    return replace(
        call,
        given=call.given or before["given"],
        places=call.places or (before["places"] if before["own"] else {}),
        quick=call.quick or before["quick"],
    )


def known(folder: StudyFolder, study: Study) -> Progress:
    """The progress of a study that may not have been started."""
    return Progress.of(study, folder.entries())


@contextmanager
def begun(folder: StudyFolder, call: Call, *, new: bool) -> Iterator[None]:
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
            _check_equal(folder, call)
        given, places = dict(call.given), dict(call.places)
        folder.keep(call.text, {"given": given, "places": places, "quick": call.quick})
        yield


def _check_equal(folder: StudyFolder, call: Call) -> None:
    """Check that the runs so far fit the study as it is now: cells and repetitions may be added.
    Raises: StudyError."""
    place = folder.place()
    origin = str(folder.path / STUDY)
    before = Call(folder.text(), place["given"], place["places"], place["quick"], origin)
    old, new = before.study(folder.name), call.study(folder.name)
    cells = {cell.key: (cell.job, cell.place) for cell in new.cells}
    gone = [cell.key for cell in old.cells if cell.key not in cells]
    changed = [
        cell.key
        for cell in old.cells
        if cells.get(cell.key, (cell.job, cell.place)) != (cell.job, cell.place)
    ]
    reasons = [f"the settings of {_first(changed)}"] if changed else []
    if gone:
        reasons.append(f"the cells, without {_first(gone)}")
    if old.metric != new.metric:
        reasons.append(f"the metric ({old.metric}, now {new.metric})")
    if dict(before.places) != dict(call.places):
        reasons.append(f"the hosts ({_words(before.places)}, now {_words(call.places)})")
    if reasons:
        raise StudyError(
            f"{folder.name} has been started, and since then changed: {' and '.join(reasons)}. "
            "Start over with --new, which keeps the earlier results under another name, or undo "
            "the change"
        )


def _first(keys: Sequence[str]) -> str:
    """The first one, and how many more there are."""
    return f"{keys[0]} and {len(keys) - 1} more" if len(keys) > 1 else keys[0]


def _words(places: Mapping[str, Any]) -> str:
    """Options as a person types them."""
    return " ".join(f"--{key} {value}" for key, value in places.items()) or "no options"
