"""Which checkpoints of a recorded run this machine knows of. Others may lie on the hosts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from remote.record.events_file import EventsReader, RunFolderError, compile_scan
from remote.record.files import is_folder
from remote.record.layout import NODE, fetched, kept
from remote.record.overview import read_overview
from remote.record.read import verdict
from training.agent.layout import step_of
from training.job import Job
from training.wire.rank_events import Saved

SAVED = compile_scan((Saved.wire_name,))


def saved_step(recorded_run: Path) -> int:
    """Return the step of the newest complete checkpoint of a run that this machine knows of; 0 if
    it knows of none."""
    known_steps = [step_of(manifest) for manifest in (*fetched(recorded_run), *kept(recorded_run))]
    if not is_folder(recorded_run / NODE):  # else what is there now counts, and nothing else
        known_steps.append(read_overview(recorded_run).checkpoint_step)
    return max(known_steps, default=0)


def has_saved(recorded_run: Path) -> bool:
    """Return True if this machine knows of a checkpoint of the run."""
    if saved_step(recorded_run) > 0:
        return True
    return not is_folder(recorded_run / NODE) and _has_recorded_checkpoint(recorded_run)


def _has_recorded_checkpoint(recorded_run: Path) -> bool:
    """Return True if the record has a checkpoint. One of a failed rank may be missing in the
    summary."""
    with closing(EventsReader(recorded_run)) as reader:
        try:
            while block := reader.read_block():
                if SAVED.search(block):
                    return True
        except RunFolderError:
            pass
    return False


def may_have_saved(recorded_run: Path, job: Job) -> bool:
    """Return True if the hosts may have a checkpoint that this machine does not know of, as the run
    was left or lost."""
    return bool(job.checkpoint_every) and verdict(recorded_run) in ("", "lost")
