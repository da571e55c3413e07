"""Which study a command means, and whether it begins or goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from remote.format import count
from remote.plan.plan import PlanError, Script
from remote.record.entry import FINISHED
from remote.record.events_file import RunFolderError
from remote.record.overview import check_number
from remote.record.read import load_plan, summarized
from remote.study import study_file as format
from remote.study.folder import STUDY, SUFFIX, RunEnded, StudyFolder, TrialOutcome
from remote.study.host_pool import without_labs
from remote.study.measurement import read_value
from remote.study.progress import StudyProgress
from remote.study.study import WITHOUT_EFFECT, Cell, Study, StudyError, Trial, split_trial_key
from remote.study.tables import format_label, override
from training.job import Job

QUICK = "-quick"
"""What the name of a study's quick variant ends with."""


@dataclass(frozen=True)
class StudyCall:
    """How a study is called. `given` are job fields of the command line, `places` its options for
    hosts, both without those that are not given. `origin` names the study in messages, `nodes` is
    the number of hosts, 0 where it is not known."""

    text: str
    given: Mapping[str, Any]
    places: Mapping[str, Any]
    quick: bool
    origin: str = ""
    num_hosts: int = 0

    def study(self, name: str) -> Study:
        """The study. Raises: StudyError."""
        return format.parse_study(
            name,
            self.text,
            self.given,
            file=self.origin,
            quick=self.quick,
            num_hosts=self.num_hosts,
        )


def find_study(
    name: str,
    runs_dir: Path,
    given: Mapping[str, Any],
    places: Mapping[str, Any],
    *,
    quick: bool,
    new: bool = False,
) -> tuple[StudyFolder, StudyCall]:
    """The directory of the study that is meant, and how to call it: a file, a bundled study, or one
    that has been started. What the command line leaves out is as in the call that started it; job
    fields are not where the study starts over: `new`. Raises: StudyError."""
    started = StudyFolder.of(runs_dir, name)
    if started.exists and not os.path.isfile(name) and name not in format.read_bundled_studies():
        title = name.removesuffix(QUICK) if quick else name
        text = ""
        origin = ""
    else:
        (title, text), origin = format.read_study_text(name), name
    folder = StudyFolder.of(runs_dir, title + (QUICK if quick else ""))
    if not origin:
        of = folder if folder.exists else started
        text = of.text()
        origin = str(of.path / STUDY)
    call = StudyCall(text, given, places, quick, origin)
    return folder, _completed(folder, call, new=new) if folder.exists else call


def _completed(folder: StudyFolder, call: StudyCall, *, new: bool) -> StudyCall:
    """The call with what the first call said and this one leaves out. Hosts that somebody else
    named are not reached."""
    before = folder.place()
    return replace(
        call,
        given=call.given if new else override(before["given"], call.given),
        places=call.places or (before["places"] if before["own"] else {}),
        quick=call.quick or before["quick"],
    )


def read_progress(folder: StudyFolder, study: Study) -> StudyProgress:
    """The progress of a study that may not have been started."""
    return StudyProgress.of(study, folder.entries())


def open_study(folder: StudyFolder) -> Study:
    """A study that was started, as it was started. Raises: StudyError."""
    study = _before(folder).study(folder.name)
    return without_labs(study) if _is_elsewhere(folder, study) else study


def _before(folder: StudyFolder) -> StudyCall:
    """How the study was called."""
    place = folder.place()
    said = (place["given"], place["places"], place["quick"])
    return StudyCall(folder.text(), *said, str(folder.path / STUDY), place["nodes"])


def _is_elsewhere(folder: StudyFolder, study: Study) -> bool:
    """Whether its runs were made on hosts of a file, as their cells say."""
    begun = {split_trial_key(entry.trial)[0] for entry in folder.entries()}
    return bool(begun) and not begun & {cell.key for cell in study.cells}


@contextmanager
def hold_study(folder: StudyFolder, call: StudyCall, *, new: bool) -> Iterator[str]:
    """Hold a study that begins or goes on. `new`: keep what there is beside, and begin. Gives the
    name under which that is kept, "" if there is nothing.

    Raises: StudyError, also where another process runs it, or where it was started with other
    settings.
    """
    kept = ""
    if folder.exists and new:
        with folder.held():
            kept = f"{folder.name}-{datetime.now():%Y%m%d-%H%M%S}"
            folder.path.rename(folder.path.with_name(f"{kept}{SUFFIX}"))
    with folder.held():
        check_unchanged(folder, call)
        for end in find_recovered_runs(folder, call):
            folder.write(end)
        how = {"given": dict(call.given), "places": dict(call.places)}
        folder.keep(call.text, how | {"nodes": call.num_hosts, "quick": call.quick})
        yield kept


def check_unchanged(folder: StudyFolder, call: StudyCall) -> None:
    """Check that the runs that count fit the study as it is now: cells and repetitions may be
    added, and what no run counts of may change. Raises: StudyError."""
    if not folder.exists:
        return
    before = _before(folder)
    old = before.study(folder.name)
    new = call.study(folder.name)
    if _is_elsewhere(folder, old):
        old = without_labs(old)
        new = without_labs(new)
    progress = read_progress(folder, old)
    kept = [cell for cell in old.cells if _is_kept(progress, cell)]
    if not kept:
        return
    cells = {cell.key: cell for cell in new.cells}
    gone = [cell.key for cell in kept if cell.key not in cells]
    reasons = list(list_changes([(cell, cells[cell.key]) for cell in kept if cell.key in cells]))
    if gone:
        reasons.append(f"{_first(gone)} {'is' if len(gone) == 1 else 'are'} no longer in it")
    if old.metric != new.metric:
        reasons.append(f"metric {old.metric}, now {new.metric}")
    if dict(before.places) != dict(call.places):
        reasons.append(f"hosts {_words(before.places)}, now {_words(call.places)}")
    if reasons:
        made = sum(len(progress.cells[cell.key].counted) for cell in kept)
        lost = f"{count(made, 'run')} would no longer fit. " if made else ""
        raise StudyError(
            f"{folder.name} has been started, and since then changed: {'; '.join(reasons)}. "
            f"{lost}Start over with --new, which keeps the earlier results under another name, or "
            "undo the change"
        )


def find_recovered_runs(folder: StudyFolder, call: StudyCall) -> list[RunEnded]:
    """Return the runs that have finished and failed only because they lack what the study compared,
    and that have what it compares now: each is to count. Raises: StudyError."""
    if not folder.exists:
        return []
    before = _before(folder)
    if dict(before.places) != dict(call.places):
        return []
    old = before.study(folder.name)
    new = call.study(folder.name)
    if _is_elsewhere(folder, old):
        old = without_labs(old)
        new = without_labs(new)
    found = []
    newest = {entry.trial: entry for entry in folder.entries()}
    for key, entry in newest.items():
        trial = new.trial(key)
        former = old.trial(key)
        if not (isinstance(entry, RunEnded) and entry.lacks and trial and former):
            continue
        if result_settings(trial.cell) == result_settings(former.cell):
            value = _value(new, trial, folder.path.parent / entry.run)
            if value is not None:
                counted = replace(entry, outcome=TrialOutcome.COUNTED, value=value)
                found.append(replace(counted, cause="", reason="", lacks=""))
    return found


def _value(study: Study, trial: Trial, run: Path) -> float | None:
    """The value of a recorded run; None where it has none, or is not of this trial."""
    try:
        work = load_plan(run).work
        summary = summarized(run)
        if summary.get("verdict") == FINISHED and _is_of(work, trial):
            return check_number(read_value(study, summary))
    except (RunFolderError, PlanError, LookupError, TypeError, AttributeError):
        pass  # it is gone, or somebody has changed it: it is repeated
    return None


def _is_of(work: Job | Script, trial: Trial) -> bool:
    """Whether a run did the work of a trial: the file may have changed several times since."""
    wanted = trial.work
    if isinstance(work, Script) or isinstance(wanted, Script):
        words = work.words if isinstance(work, Script) else None
        return isinstance(wanted, Script) and words == wanted.words
    return not work.differs(wanted) and (work.steps, work.epochs) == (wanted.steps, wanted.epochs)


def _is_kept(progress: StudyProgress, cell: Cell) -> bool:
    """Whether there is a run of the cell that counts, or one left that may turn out to."""
    left = any(split_trial_key(trial)[0] == cell.key for trial in progress.open)
    return left or bool(progress.cells[cell.key].counted)


def list_changes(pairs: Sequence[tuple[Cell, Cell]]) -> Iterator[str]:
    """Which settings of cells differ, each with its values before and now, and with the cells if it
    differs in some only."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for before, now in pairs:
        old = result_settings(before)
        new = result_settings(now)
        for name in dict.fromkeys((*old, *new)):
            if old.get(name) != new.get(name):
                key = name, _shown(old.get(name)), _shown(new.get(name))
                found.setdefault(key, []).append(before.key)
    for (name, old_value, new_value), keys in found.items():
        where = f" ({_first(keys)})" if len(keys) < len(pairs) else ""
        yield f"{name} {old_value}, now {new_value}{where}"


def result_settings(cell: Cell) -> dict[str, object]:
    """The settings of a cell on which its results may depend, with those of its sync method."""
    if not isinstance(cell.work, Job):
        return {"script": cell.work.command_line(), **vars(cell.place)}
    own = {**vars(cell.work), **vars(cell.place), "one seed for all repetitions": cell.has_seed}
    del own["sync_option"]
    method = vars(cell.work.sync_options())
    return {name: value for name, value in own.items() if name not in WITHOUT_EFFECT} | method


def _shown(value: object) -> str:
    """A value as a person writes it; that of an option which is not given is the default."""
    if value is None:
        return "default"
    return '""' if value == "" else format_label(value)


def _first(keys: Sequence[str]) -> str:
    """The first one, and how many more there are."""
    return f"{keys[0]} and {len(keys) - 1} more" if len(keys) > 1 else keys[0]


def _words(places: Mapping[str, Any]) -> str:
    """Options as a person types them."""
    return " ".join(f"--{key} {value}" for key, value in places.items()) or "no options"
