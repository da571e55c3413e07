"""The runs of a study before they are made, for --dry-run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields

from remote.format import count
from remote.plan.plan import Script
from remote.study import estimate
from remote.study.host_pool import HostPool
from remote.study.progress import CellState, StudyProgress
from remote.study.start_study import result_settings
from remote.study.study import Cell, Study
from remote.transport.registry import is_here
from training.job import Job, usual_lr
from training.setting import Shown
from tui.kit.narrate import narrate
from tui.kit.text_table import print_table
from tui.study.text.json_printer import named, write


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
            work_facts = (
                {"job": asdict(work)} if isinstance(work, Job) else {"script": list(work.words)}
            )
            write(named(trial) | work_facts | {"done": progress.is_settled(trial)})
        return
    question = f": {study.question}" if study.question else ""
    narrate(f"{study.title}{question}")
    common_text = ", ".join(_common_settings(study.cells))
    if common_text:
        narrate(f"all runs: {common_text}")
    narrate(
        f"hosts: {_describe_hosts(places)}",
        *([study.overrides_text] if study.overrides_text else []),
    )
    rows = []
    for number, trial in enumerate(study.trials(), start=1):
        state_text = "finished" if progress.is_settled(trial) else CellState.WAITING.value
        place = trial.cell.place
        place_text = f"{count(place.nodes, 'host')}, {count(place.ranks, 'rank')}"
        rows.append((str(number), trial.key, place_text, state_text))
    print_table(("run", "cell", "where", "state"), rows)
    narrate(estimate.estimate_text(progress))


def _common_settings(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the settings that all cells share, without most defaults: "batch_size 64"."""
    first_settings, *other_settings = map(result_settings, cells)
    job = cells[0].job
    # A bare job, whose settings are the defaults; the learning rate's depends on the model.
    usual_settings = result_settings(
        Cell((), Job(lr=usual_lr(job.model)) if job else Script(()), cells[0].place)
    )
    always_shown = {
        setting.name for setting in fields(Job) if setting.metadata["shown"] is Shown.ALWAYS
    }
    for name, value in first_settings.items():
        is_worth = value != usual_settings.get(name) or name in always_shown
        if (
            is_worth
            and value is not None
            and all(other.get(name) == value for other in other_settings)
        ):
            yield f"{name} {value}"


def _describe_hosts(places: HostPool) -> str:
    """Return the hosts of all runs, and where they are."""
    cluster = places.cluster
    host_names = ", ".join(host.name for host in cluster.hosts)
    place_text = "this machine" if is_here(cluster.hosts) else cluster.file or cluster.name
    lab_limits = {"link": places.link, "cpus": places.cpus}
    return ", ".join(
        (
            f"{host_names} ({place_text})",
            *(f"{key} {value}" for key, value in lab_limits.items() if value),
        )
    )
