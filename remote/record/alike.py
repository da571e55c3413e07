"""Order recorded runs by how similar they are to one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from remote.plan.plan import Plan
from remote.record.entry import DEFAULTS, FINISHED, Entry
from remote.record.index import entries


class Difference(NamedTuple):
    """A setting in which two runs differ."""

    setting: str
    """Its name, as in `rankboard compare`."""
    value: object
    other_value: object


class SimilarRun(NamedTuple):
    """A run, and in what another one differs from it."""

    run: Entry
    differences: tuple[Difference, ...]


def is_of_same_kind(run: Entry, other_run: Entry) -> bool:
    """Return True if both have a job, or the same program: else their settings say nothing."""
    if run.job is None or other_run.job is None:
        is_same_program = run.script.split()[:1] == other_run.script.split()[:1]
        return run.job is other_run.job and is_same_program
    return True


def find_similar(run: Entry, runs: Iterable[Entry]) -> list[SimilarRun]:
    """Return the other runs that have made steps, the most similar first: those of the same kind
    before those of the other, then by the number of settings that differ, then the newest. In the
    differences, the values of `run` come first."""
    own_settings = _describe(run)
    similar = list[SimilarRun]()
    for other_run in runs:
        if other_run.name == run.name or not other_run.step or other_run.problem:
            continue
        other_settings = _describe(other_run)
        setting_names = own_settings | other_settings
        differences = [
            Difference(
                name, _value(run, own_settings, name), _value(other_run, other_settings, name)
            )
            for name in setting_names
            if own_settings.get(name) != other_settings.get(name)
        ]
        similar.append(SimilarRun(other_run, tuple(differences)))

    def distance(similar_run: SimilarRun) -> tuple[bool, int, float]:
        other_run, differences = similar_run
        # Of a job and a script, each lacks the settings of the other, not only those that were set.
        is_other_kind = (other_run.job is None) != (run.job is None)
        return is_other_kind, len(differences), -(other_run.started or 0.0)

    return sorted(similar, key=distance)


def find_previous(runs_dir: Path, name: str) -> Entry | None:
    """Return the newest run that had finished before this one and differs in no setting but the
    seed; None if there is none."""
    runs = entries(runs_dir)
    own_run = next((run for run in runs if run.name == name), None)
    if own_run is None:
        return None
    # A name begins with the time of the start.
    earlier_runs = [run for run in runs if run.name < name and run.verdict == FINISHED]
    same_runs = [
        similar.run for similar in find_similar(own_run, earlier_runs) if not similar.differences
    ]
    return max(same_runs, key=lambda run: run.name, default=None)


def find_last_start(runs_dir: Path, plan: Plan) -> Mapping[str, float]:
    """Return what the stages of the start took, by their titles, in the newest run that finished
    before this one on the same hosts with as many ranks; nothing if there is none.

    Runs of a study start faster: their hosts keep a Python ready that has imported torch.
    """
    place = (tuple(host.name for host in plan.hosts), plan.world_size, plan.job is None)
    for run in entries(runs_dir)[::-1]:
        is_earlier = run.name < plan.run and run.verdict == FINISHED and not run.study
        if is_earlier and run.times and (run.hosts, run.ranks, run.job is None) == place:
            return run.times.stages
    return {}


def _describe(run: Entry) -> dict[str, object]:
    """Return what a run was, without the seed, which no two runs need to share."""
    job_settings = {
        setting_name.replace("_", "-"): value for setting_name, value in (run.job or {}).items()
    }
    job_settings.pop("seed", None)
    return {
        "program": run.script,
        **job_settings,
        **run.variables,
        "nodes": len(run.hosts),
        "ranks": run.ranks,
    }


def _value(run: Entry, settings: dict[str, object], name: str) -> object:
    """Return the value of a setting; "" if the run, which is that of a script, has none."""
    default = "" if run.job is None else DEFAULTS.get(name.replace("-", "_"), "")
    return settings.get(name, default)
