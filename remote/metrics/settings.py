"""The settings of runs, and which of them differ."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from remote.format import UNKNOWN
from remote.metrics.run import RunFigures
from training import options

HOST_FACTS = {
    "machines": "hostname",
    "cores": "cores",
    "python": "python",
    "torch": "torch",
    "torchvision": "torchvision",
    "platform": "platform",
}
"""Settings that are facts of the hosts, by what they are called there."""
RANK_FACTS = {"device": "device", "backend": "backend", "threads": "threads"}
"""Settings that are facts of the ranks."""


def settings(run: RunFigures) -> dict[str, str]:
    """Return all settings of a run by name.

    Those of the job come first, called like its flags, then the hosts, the ranks and the versions.
    What is not given or not known is `UNKNOWN`.
    """
    values = _job_settings(run)
    values["hosts"] = _join(host.name for host in run.hosts)
    values["nodes"] = str(run.nodes)
    values["ranks"] = str(run.world_size)
    for name, fact in HOST_FACTS.items():
        values[name] = _join_facts((host.facts for host in run.hosts), fact)
    for name, fact in RANK_FACTS.items():
        values[name] = _join_facts((rank.facts for rank in run.ranks), fact)
    values["rankboard"] = run.launched_with.get("rankboard", UNKNOWN)
    return values


def differing(runs: Sequence[RunFigures]) -> dict[str, tuple[str, ...]]:
    """Return the settings that are not the same in all runs: by name, the value of each run.

    An option of a sync method is one if some run names it.
    """
    all_settings = [settings(run) | _method_options(run, runs) for run in runs]
    names = dict.fromkeys(name for values in all_settings for name in values)
    columns = {}
    for name in names:
        column = tuple(values.get(name, UNKNOWN) for values in all_settings)
        if len(set(column)) > 1:
            columns[name] = column
    return columns


def are_alike(run: RunFigures, other: RunFigures) -> bool:
    """Return True if all settings that are recorded of two runs are equal, but for the seed."""
    return set(differing([run, other])) <= {"seed"}


def _job_settings(run: RunFigures) -> dict[str, str]:
    if run.job is None:
        return {"program": shlex.join(run.script)}
    fields = asdict(run.job)
    # Options are compared one by one: see _method_options.
    del fields["sync_option"]
    return {name.replace("_", "-"): _write(value) for name, value in fields.items()}


def _method_options(run: RunFigures, runs: Sequence[RunFigures]) -> dict[str, str]:
    """Return the options of the run's sync method that some of the runs name."""
    if run.job is None:
        return {}
    words = [word for other in runs if other.job for word in other.job.sync_option]
    names = dict.fromkeys(word.partition("=")[0] for word in words)
    values = vars(run.job.sync_options())
    return {name: _write(values[name]) if name in values else UNKNOWN for name in names}


def _join_facts(all_facts: Iterable[dict[str, Any]], name: str) -> str:
    """Return the values of a fact, each once, in the order of the hosts or ranks."""
    values = [facts.get(name) for facts in all_facts]
    return _join(dict.fromkeys(_write(value) for value in values if value is not None))


def _join(words: Iterable[str]) -> str:
    return ", ".join(words) or UNKNOWN


def _write(value: object) -> str:
    return UNKNOWN if value in (None, "") else options.format_value(value)
