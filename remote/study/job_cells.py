"""The cells of a study that trains jobs of ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from remote.format import count
from remote.study.mistakes import StudyMistakes
from remote.study.study import Cell, Labels, cell_key
from remote.study.tables import (
    NUMBER_KEYS,
    CellKeys,
    PlaceKeys,
    belongs_to_top,
    override,
    place_cell,
    read_table,
)
from training import options, registry
from training.job import Job, JobError
from training.registry import did_you_mean

SYNONYMS = {
    "lr": "learningrate eta",
    "epochs": "epoch numepochs nepochs",
    "steps": "step iterations iters maxsteps",
    "batch_size": "batch batchsize bs globalbatchsize",
    "dataset": "data dataname",
    "model": "network net architecture arch",
    "sync": "method strategy",
    "seed": "randomseed",
    "weight_decay": "wd decay l2",
    "nodes": "hosts node workers machines numnodes nnodes",
    "ranks": "worldsize numranks",
    "processes": "procs slots process nprocpernode",
    "link": "bandwidth rate",
    "cpus": "cores cpu",
}
"""What other programs call the settings, without underscores."""
OPTIMISERS = ("optimizer", "optimiser", "optim")


@dataclass
class JobCells:
    """Makes cells of jobs from their settings."""

    mistakes: StudyMistakes
    base: Mapping[str, Any]
    """The settings of [job], which all cells share."""
    given: Mapping[str, Any]
    """Settings from the command line, which override these."""
    num_hosts: int
    """The number of hosts that there are; 0 if it is not known."""
    _errors: dict[str, list[str]] = field(default_factory=dict)
    """What is wrong with whole jobs, with the keys of their cells."""

    def read_cell(self, labels: Labels, varied: Mapping[str, Any]) -> Cell | None:
        """Return the cell that varies these settings, or None if they have a mistake."""
        num_mistakes = len(self.mistakes)
        # What a cell varies comes last: a flag for it was refused before.
        settings = override(override(self.base, self.given), varied)
        known_settings, sync_words = self._sort_settings(settings, varied)
        cell_keys = read_table(CellKeys, known_settings, self.mistakes)
        if len(self.mistakes) > num_mistakes:
            return None
        job_settings: dict[str, Any] = {}
        place_settings: dict[str, Any] = {}
        for key in cell_keys.model_fields_set:
            target_table = place_settings if key in PlaceKeys.model_fields else job_settings
            target_table[key] = getattr(cell_keys, key)
        job_settings["sync_option"] = (*job_settings.get("sync_option", ()), *sync_words)
        is_on_all_hosts = place_settings.keys().isdisjoint(NUMBER_KEYS)
        is_place_known = self.num_hosts > 0 or not is_on_all_hosts
        cell_place = place_cell(place_settings, self.num_hosts, self.mistakes)
        if cell_place is None:
            return None
        try:
            job = Job.of(job_settings)
            # Without hosts, --dry-run and reports still read the study: how many ranks is unknown
            # then.
            if is_place_known:
                job.check_world(cell_place.ranks)
        except JobError as error:
            for job_mistake in error.mistakes:
                self._errors.setdefault(str(job_mistake), []).append(cell_key(labels))
            return None
        return Cell(labels, job, cell_place, "seed" in varied, is_on_all_hosts)

    def note_errors(self) -> None:
        """Note what is wrong with whole jobs, once for all cells that have it."""
        for error, (first_key, *other_keys) in self._errors.items():
            others_text = f" and {count(len(other_keys), 'more cell')}" if other_keys else ""
            self.mistakes.add(f"{first_key}{others_text}: {error}")

    def _sort_settings(
        self, settings: Mapping[str, Any], varied: Collection[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the settings of job and place, and the options of the sync method in words."""
        sync_name = settings.get("sync", Job.sync)
        own_options: list[str] = []
        is_method_known = sync_name in registry.list_names("sync")
        if is_method_known:
            own_options = [option.name for option in options.declared_options(sync_name)]
        known_settings = {}
        sync_words = []
        for key, value in settings.items():
            if key in own_options:
                sync_words.append(f"{key}={options.format_value(value)}")
            elif key in CellKeys.model_fields:
                known_settings[key] = value
            elif not _is_option(key):
                self._note_unknown(key, own_options)
            elif key in varied and is_method_known:
                # In [job], it may be an option of other methods of the study.
                self.mistakes.add_at(
                    key,
                    f"{key} is not an option of sync = {sync_name!r}: vary it together with the "
                    "methods "
                    f'that have it: {{ sync = "…", {key} = … }}',
                )
        return known_settings, sync_words

    def _note_unknown(self, key: str, own_options: Collection[str]) -> None:
        mistake_text = belongs_to_top(key) or (
            f"unknown setting '{key}'"
            + (
                _name_used_here(key)
                or did_you_mean(key, (*CellKeys.model_fields, *own_options))
                or ": write a job option, nodes, processes, ranks, link, cpus, or an option of a "
                "sync method"
            )
        )
        self.mistakes.add_at(key, mistake_text)


def _name_used_here(key: str) -> str:
    """Return what a setting is called here that has another name elsewhere; "" if unknown."""
    plain_key = key.lower().replace("_", "")
    if plain_key in OPTIMISERS:
        return ": the optimiser is SGD, with lr, momentum and weight_decay"
    for setting, synonyms in SYNONYMS.items():
        if plain_key in synonyms.split():
            return f": did you mean '{setting}'?"
    return ""


def _is_option(key: str) -> bool:
    """Return whether this is an option of any sync method."""
    for method in registry.list_names("sync"):
        if any(option.name == key for option in options.declared_options(method)):
            return True
    return False
