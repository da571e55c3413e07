"""The runs of a study before they are made, for --dry-run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from remote.format import count
from remote.plan.plan import Script
from remote.study import estimate
from remote.study.host_pool import HostPool
from remote.study.progress import CellState, StudyProgress
from remote.study.start_study import result_settings
from remote.study.study import Cell, Study
from remote.transport.registry import is_here
from training.job import Job, usual_lr
from tui.kit.narrate import narrate
from tui.kit.text_table import print_table
from tui.study.text.json_printer import named, write

ALWAYS = ("model", "dataset", "batch_size", "lr", "steps", "epochs")
"""Settings that are shown even where they are the defaults."""


def print_dry_run(
    study: Study,
    progress: StudyProgress,
    places: HostPool,
    *,
    json: bool,
) -> None:
    """Print what all runs have in common, the runs in order, and how long they may take."""
    if json:
        for trial in study.trials():
            work = trial.work
            what = {"job": asdict(work)} if isinstance(work, Job) else {"script": list(work.words)}
            write(named(trial) | what | {"done": progress.is_settled(trial)})
        return
    question = f": {study.question}" if study.question else ""
    narrate(f"{study.title}{question}")
    common = ", ".join(_common(study.cells))
    if common:
        narrate(f"all runs: {common}")
    narrate(f"hosts: {_hosts(places)}", *([study.overrides_text] if study.overrides_text else []))
    rows = []
    for number, trial in enumerate(study.trials(), start=1):
        done = "done" if progress.is_settled(trial) else CellState.WAITING.value
        place = trial.cell.place
        where = f"{count(place.nodes, 'host')}, {count(place.ranks, 'rank')}"
        rows.append((str(number), trial.key, where, done))
    print_table(("run", "cell", "where", "state"), rows)
    narrate(estimate.estimate_text(progress))


def _common(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the settings that all cells share, without most defaults: "batch_size 64"."""
    first, *others = map(result_settings, cells)
    job = cells[0].job
    usual = result_settings(
        Cell((), Job(lr=usual_lr(job.model)) if job else Script(()), cells[0].place)
    )
    for name, value in first.items():
        is_worth = value != usual.get(name) or name in ALWAYS
        if is_worth and value is not None and all(other.get(name) == value for other in others):
            yield f"{name} {value}"


def _hosts(places: HostPool) -> str:
    """Return the hosts of all runs, and where they are."""
    cluster = places.cluster
    names = ", ".join(host.name for host in cluster.hosts)
    where = "this machine" if is_here(cluster.hosts) else cluster.file or cluster.name
    limits = {"link": places.link, "cpus": places.cpus}
    return ", ".join(
        (f"{names} ({where})", *(f"{key} {value}" for key, value in limits.items() if value))
    )
