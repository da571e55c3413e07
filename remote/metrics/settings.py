"""The settings of runs, and which of them differ."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from remote.format import UNKNOWN
from remote.metrics.run import RunFigures
from training import options

_OF_HOSTS = {
    "machines": "hostname",
    "cores": "cores",
    "python": "python",
    "torch": "torch",
    "torchvision": "torchvision",
    "platform": "platform",
}
"""Settings that are facts of the hosts, by what they are called there."""
_OF_RANKS = {"device": "device", "backend": "backend", "threads": "threads"}
"""Settings that are facts of the ranks."""


def settings(run: RunFigures) -> dict[str, str]:
    """All settings of a run by name: those of the job as its flags are called, then the hosts, the
    ranks and the versions. What is not given or not known is `UNKNOWN`."""
    hosts, ranks = ([one.facts for one in places] for places in (run.hosts, run.ranks))
    return (
        _of_job(run)
        | {
            "hosts": _listed(host.name for host in run.hosts),
            "nodes": str(run.nodes),
            "ranks": str(run.world_size),
        }
        | {name: _facts(hosts, fact) for name, fact in _OF_HOSTS.items()}
        | {name: _facts(ranks, fact) for name, fact in _OF_RANKS.items()}
        | {"rankboard": run.launched_with.get("rankboard", UNKNOWN)}
    )


def differing(runs: Sequence[RunFigures]) -> dict[str, tuple[str, ...]]:
    """The settings that are not the same in all runs: by name, the value of each run. An option of
    a sync method is one where some run names it."""
    found = [settings(run) | _options(run, runs) for run in runs]
    names = list(dict.fromkeys(name for one in found for name in one))
    columns = {name: tuple(one.get(name, UNKNOWN) for one in found) for name in names}
    return {name: values for name, values in columns.items() if len(set(values)) > 1}


def alike(run: RunFigures, other: RunFigures) -> bool:
    """Whether all settings that are recorded of two runs are equal, but for the seed."""
    return set(differing([run, other])) <= {"seed"}


def _of_job(run: RunFigures) -> dict[str, str]:
    if run.job is None:
        return {"program": shlex.join(run.script)}
    fields = asdict(run.job)
    del fields["sync_option"]  # see _options
    return {name.replace("_", "-"): _written(value) for name, value in fields.items()}


def _options(run: RunFigures, runs: Sequence[RunFigures]) -> dict[str, str]:
    """The options of the run's sync method that some of the runs name."""
    if run.job is None:
        return {}
    jobs = [one.job for one in runs if one.job]
    named = dict.fromkeys(word.partition("=")[0] for job in jobs for word in job.sync_option)
    values = vars(run.job.sync_options())
    return {name: _written(values[name]) if name in values else UNKNOWN for name in named}


def _facts(facts: Iterable[dict[str, Any]], name: str) -> str:
    """The values of a fact, each once, in the order of the hosts or ranks."""
    found = (one.get(name) for one in facts)
    return _listed(dict.fromkeys(_written(value) for value in found if value is not None))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or UNKNOWN


def _written(value: object) -> str:
    return UNKNOWN if value in (None, "") else options.write(value)
