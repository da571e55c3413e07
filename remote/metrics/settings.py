"""The settings of runs, and which of them differ."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from remote.format import UNKNOWN
from remote.metrics.run import RunFigures
from remote.plan.variables import describe_variables
from training import options
from training.job import names_by_effect
from training.setting import SAME_STEP_WORK

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

    Those of the job come first, called like its flags, then the variables that are set for the
    ranks, the hosts, the ranks and the versions. What is not given or not known is `UNKNOWN`.
    """
    setting_values = _job_settings(run)
    setting_values |= describe_variables([host.variables for host in run.hosts])
    setting_values["hosts"] = _join_words(host.name for host in run.hosts)
    setting_values["nodes"] = str(run.nodes)
    setting_values["ranks"] = str(run.world_size)
    for setting_name, fact_name in HOST_FACTS.items():
        setting_values[setting_name] = _join_facts((host.facts for host in run.hosts), fact_name)
    for setting_name, fact_name in RANK_FACTS.items():
        setting_values[setting_name] = _join_facts((rank.facts for rank in run.ranks), fact_name)
    setting_values["rankboard"] = run.launched_with.get("rankboard", UNKNOWN)
    return setting_values


def differing(runs: Sequence[RunFigures]) -> dict[str, tuple[str, ...]]:
    """Return the settings that are not the same in all runs: by name, the value of each run.

    An option of a sync method is one if some run names it.
    """
    all_settings = [settings(run) | _method_options(run, runs) for run in runs]
    setting_names = dict.fromkeys(name for run_settings in all_settings for name in run_settings)
    differing_settings = {}
    for name in setting_names:
        setting_values = tuple(run_settings.get(name, UNKNOWN) for run_settings in all_settings)
        if len(set(setting_values)) > 1:
            differing_settings[name] = setting_values
    return differing_settings


def are_alike(run: RunFigures, other: RunFigures) -> bool:
    """Return True if all settings that are recorded of two runs are equal, but for the seed."""
    return set(differing([run, other])) <= {"seed"}


def list_same_work_settings(run: RunFigures, other: RunFigures) -> tuple[str, ...]:
    """Return all settings in which two runs differ; none if one of them changes what a step does or
    where."""
    differing_names = tuple(differing([run, other]))
    same_work_names = {name.replace("_", "-") for name in names_by_effect(*SAME_STEP_WORK)}
    return differing_names if same_work_names.issuperset(differing_names) else ()


def _job_settings(run: RunFigures) -> dict[str, str]:
    if run.job is None:
        return {"program": shlex.join(run.script)}
    job_fields = asdict(run.job)
    # Options are compared one by one: see _method_options.
    del job_fields["sync_option"]
    return {name.replace("_", "-"): _format_value(value) for name, value in job_fields.items()}


def _method_options(run: RunFigures, runs: Sequence[RunFigures]) -> dict[str, str]:
    """Return the options of the run's sync method that some of the runs name."""
    if run.job is None:
        return {}
    option_words = [word for other in runs if other.job for word in other.job.sync_option]
    option_names = dict.fromkeys(word.partition("=")[0] for word in option_words)
    method_options = vars(run.job.sync_options())
    return {
        name: _format_value(method_options[name]) if name in method_options else UNKNOWN
        for name in option_names
    }


def _join_facts(all_facts: Iterable[dict[str, Any]], name: str) -> str:
    """Return the values of a fact, each once, in the order of the hosts or ranks."""
    fact_values = [facts.get(name) for facts in all_facts]
    return _join_words(
        dict.fromkeys(_format_value(value) for value in fact_values if value is not None)
    )


def _join_words(words: Iterable[str]) -> str:
    return ", ".join(words) or UNKNOWN


def _format_value(value: object) -> str:
    return UNKNOWN if value in (None, "") else options.format_value(value)
