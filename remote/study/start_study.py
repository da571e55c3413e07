"""Which study a command means, and whether it begins or goes on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from remote.format import count, listed
from remote.plan.plan import Script
from remote.record.layout import QUICK
from remote.study.folder import STUDY, SUFFIX, StudyCall, StudyFolder
from remote.study.host_pool import without_labs
from remote.study.progress import StudyProgress
from remote.study.repeat import study_words, to_flags
from remote.study.study import (
    Cell,
    Study,
    StudyError,
    split_trial_key,
)
from remote.study.study_file import parse_study, read_bundled_studies, read_study_text
from remote.study.tables import format_label, override
from training.job import names_by_effect
from training.setting import Effect


def parse_call(name: str, call: StudyCall) -> Study:
    """Return the study that is called. Raises: StudyError."""
    return parse_study(
        name,
        call.text,
        call.given,
        file=call.origin,
        quick=call.quick,
        num_hosts=call.num_hosts,
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
    """Return the directory of the study that is meant, and how to call it. Raises: StudyError.

    It is a file, a bundled study, or one that has been started. What the command line leaves out is
    as in the call that started it; settings of the job are not if the study starts over, `new`.
    """
    started = StudyFolder.of(runs_dir, name)
    if started.exists and not os.path.isfile(name) and name not in read_bundled_studies():
        study_name = name.removesuffix(QUICK) if quick else name
        folder = _variant(runs_dir, study_name, quick=quick)
        source = folder if folder.exists else started
        text = source.text()
        origin_name = str(source.path / STUDY)
    else:
        study_name, text = read_study_text(name)
        folder = _variant(runs_dir, study_name, quick=quick)
        origin_name = name
    call = StudyCall(text, given, places, quick, origin_name, typed_name=name)
    return folder, _complete(folder, call, new=new) if folder.exists else call


def _variant(runs_dir: Path, title: str, *, quick: bool) -> StudyFolder:
    """Return the directory of a study, or of its quick variant, which is a study of its own."""
    return StudyFolder.of(runs_dir, f"{title}{QUICK}" if quick else title)


def _complete(folder: StudyFolder, call: StudyCall, *, new: bool) -> StudyCall:
    """Return the call with what the first call gave and this one leaves out."""
    first_call = folder.call()
    # A place.json that somebody else wrote may name hosts that this user must not reach.
    known_places = first_call.places if first_call.is_trusted else {}
    return replace(
        call,
        given=call.given if new else override(first_call.given, call.given),
        places=call.places or known_places,
        quick=call.quick or first_call.quick,
    )


def read_progress(folder: StudyFolder, study: Study) -> StudyProgress:
    """Return the progress of a study, which may not have been started."""
    return StudyProgress.of(study, folder.entries())


def open_study(folder: StudyFolder) -> Study:
    """Return a study that was started, as it was started. Raises: StudyError."""
    study = parse_call(folder.name, folder.call())
    return without_labs(study) if _was_without_labs(folder, study) else study


def _was_without_labs(folder: StudyFolder, study: Study) -> bool:
    """Return whether its runs were made on hosts of a file, as their cells say."""
    # No journal entry says so: a study on hosts of a file has other cell keys than its text gives.
    begun_cells = {split_trial_key(entry.trial)[0] for entry in folder.entries()}
    return bool(begun_cells) and not begun_cells & {cell.key for cell in study.cells}


@contextmanager
def hold_study(folder: StudyFolder, call: StudyCall, *, new: bool) -> Iterator[str]:
    """Hold a study that begins or goes on.

    With `new`, keep what there is under another name, and begin. Gives this name, "" if there is
    nothing to keep.

    Raises: StudyError, also if another process runs the study, or if it was started with other
    settings.
    """
    name_of_earlier = ""
    if folder.exists and new:
        # Held, so that no study is renamed while another process makes its runs.
        with folder.held():
            name_of_earlier = f"{folder.name}-{datetime.now():%Y%m%d-%H%M%S}"
            folder.path.rename(folder.path.with_name(f"{name_of_earlier}{SUFFIX}"))
    with folder.held():
        check_unchanged(folder, call)
        folder.keep(call)
        yield name_of_earlier


# Changes since the start --------------------------------------------------------------------------


def check_unchanged(folder: StudyFolder, call: StudyCall) -> None:
    """Check that the runs that count fit the study as it is now. Raises: StudyError.

    Cells and repetitions may be added, and cells without a run may change.
    """
    if not folder.exists:
        return
    first_call = folder.call()
    old_study, new_study = _old_and_new(folder, first_call, call)
    progress = read_progress(folder, old_study)
    # Cells that have no run yet are free to change: nothing measured depends on them.
    used_cells = [cell for cell in old_study.cells if _has_runs(progress, cell)]
    if not used_cells:
        return
    new_cells = {cell.key: cell for cell in new_study.cells}
    remaining_cells = [cell for cell in used_cells if cell.key in new_cells]
    gone_keys = [cell.key for cell in used_cells if cell.key not in new_cells]
    reasons = list(list_changes([(cell, new_cells[cell.key]) for cell in remaining_cells]))
    if gone_keys:
        reasons.append(f"no longer in it: {listed(gone_keys)}")
    if old_study.metric != new_study.metric:
        reasons.append(f"metric {old_study.metric}, now {new_study.metric}")
    if dict(first_call.places) != dict(call.places):
        reasons.append(
            f"hosts {_format_options(first_call.places)}, now {_format_options(call.places)}"
        )
    if reasons:
        num_runs = sum(len(progress.cells[cell.key].counted) for cell in used_cells)
        lost_text = f"{count(num_runs, 'run')} would no longer fit. " if num_runs else ""
        command = shlex.join(study_words(call.typed_name or folder.name, call))
        raise StudyError(
            f"{folder.name} has been started, and since then changed: {'; '.join(reasons)}. "
            f"{lost_text}Undo the change, or start over with --new, which keeps the earlier "
            f"results under another name:\n{command}"
        )


def _old_and_new(
    folder: StudyFolder, first_call: StudyCall, call: StudyCall
) -> tuple[Study, Study]:
    """Return the study as it was started and as it is now, both for the same kind of hosts."""
    old_study = parse_call(folder.name, first_call)
    new_study = parse_call(folder.name, call)
    if _was_without_labs(folder, old_study):
        return without_labs(old_study), without_labs(new_study)
    return old_study, new_study


def _has_runs(progress: StudyProgress, cell: Cell) -> bool:
    """Return whether a run of the cell counts, or one is left that may turn out to."""
    is_open = any(split_trial_key(open_trial)[0] == cell.key for open_trial in progress.open)
    return is_open or bool(progress.cells[cell.key].counted)


def list_changes(pairs: Sequence[tuple[Cell, Cell]]) -> Iterator[str]:
    """Yield the settings that differ, with their values before and now.

    `pairs` have cells before and now. The cells are named if only some of them differ.
    """
    changes: dict[str, list[str]] = {}
    for before, now in pairs:
        old_settings = result_settings(before)
        new_settings = result_settings(now)
        for setting in dict.fromkeys((*old_settings, *new_settings)):
            if old_settings.get(setting) != new_settings.get(setting):
                old_value = _format_setting(old_settings.get(setting))
                change = f"{setting} {old_value}, now {_format_setting(new_settings.get(setting))}"
                changes.setdefault(change, []).append(before.key)
    for change, keys in changes.items():
        cells_text = f" ({listed(keys)})" if len(keys) < len(pairs) else ""
        yield f"{change}{cells_text}"


def result_settings(cell: Cell) -> dict[str, object]:
    """Return the settings of a cell on which its results may depend, with those of its method."""
    place = vars(cell.place)
    if isinstance(cell.work, Script):
        before = {"before": cell.work.before} if cell.work.before else {}
        return {"script": cell.work.command_line(), **before, **place}
    settings = vars(cell.work) | place | {"one seed for all repetitions": cell.has_seed}
    # Options are compared one by one, below. The others change no result.
    for name in ("sync_option", *names_by_effect(Effect.NOTHING)):
        del settings[name]
    return settings | vars(cell.work.sync_options())


def _format_setting(value: object) -> str:
    """Return a value as a person writes it; that of an option which is not given is the default."""
    if value is None:
        return "default"
    return '""' if value == "" else format_label(value)


def _format_options(options: Mapping[str, Any]) -> str:
    """Return options as a person types them."""
    return shlex.join(to_flags(options)) or "no options"
