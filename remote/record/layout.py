"""What lies where in a run's directory on the operator's machine: every name, once.

plan.json          the plan, and with which versions it was launched
plan.mac           proves to the user who recorded plan.json that nobody has changed it
elsewhere          there if the run was started elsewhere, and the record was fetched from its hosts
launcher.pid       held by the launcher that records the run; its process and machine
events.jsonl       every record, in order of arrival
steps.bin          the packed columns of the steps in it, see `remote.record.step_chunks`
snapshots/         OFFSET: the state after so many bytes of them; only a cache
logs/              rank-N.log: every line of a rank; host-N.log: what a host's agent prints
overview.json      what lists of runs need to know of it, as of a few seconds ago
summary.json       what became of the run, at its end
report.txt         the classification report of the last evaluation, if there is one
hosts/NAME/        results that were fetched from a host
node/              with --local: the workdir of the hosts, see `training.agent.layout`
starred, pinned, note.txt, name.txt, step-notes.json
                   what a person keeps with the run
copied.txt, log-*  what a person copied last from the log, and saved of it

Beside the runs:

.index.json          what was read of all runs, see `remote.record.index`
NAME.study/          a study; its journal.jsonl names its runs
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.agent.layout import NODE, PLAN, RUNS, SAVED

__all__ = ["NODE", "PLAN"]

SIGNATURE = "plan.mac"
ELSEWHERE = "elsewhere"
LOCK = "launcher.pid"
EVENTS = "events.jsonl"
STEP_CHUNKS = "steps.bin"
SNAPSHOTS = "snapshots"
LOGS = "logs"
OVERVIEW = "overview.json"
SUMMARY = "summary.json"
REPORT = "report.txt"
FETCHED = "hosts"
STAR = "starred"
PIN = "pinned"
NOTE = "note.txt"
NAME = "name.txt"
STEP_NOTES = "step-notes.json"
INDEX = ".index.json"
STUDY = ".study"
QUICK = "-quick"
"""The end of the name of a study's quick variant."""
JOURNAL = "journal.jsonl"


def rank_log(folder: Path, rank: int) -> Path:
    """Return the log of a rank."""
    return folder / LOGS / f"rank-{rank}.log"


def host_log(folder: Path, host: int) -> Path:
    """Return the log of a host's agent."""
    return folder / LOGS / f"host-{host}.log"


def recorded(runs_dir: Path) -> list[Path]:
    """Return the directories of the runs that are recorded here, the newest last."""
    return sorted(path.parent for path in runs_dir.glob(f"*/{PLAN}"))


def workdirs(runs_dir: Path) -> list[str]:
    """Return the workdirs of the runs that were launched with --local."""
    return [str(node.absolute()) for node in sorted(runs_dir.glob(f"*/{NODE}")) if node.is_dir()]


def local_run(folder: Path) -> Path:
    """Return the folder of a local run in its workdir, which has one folder per host."""
    return folder / NODE / RUNS / folder.name


def fetched(folder: Path) -> Iterator[Path]:
    """Yield the manifests of complete checkpoints that were fetched."""
    return (folder / FETCHED).glob(f"*/{SAVED}")


def kept(folder: Path) -> Iterator[Path]:
    """Yield the manifests of complete checkpoints in the workdir of a local run."""
    return (folder / NODE).glob(f"{RUNS}/*/*/{SAVED}")
