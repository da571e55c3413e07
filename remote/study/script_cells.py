"""The cells of a study of a script: its axes are the arguments of the script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remote.plan.placeholders import LOCAL_WORLD_SIZE, PLACEHOLDERS, WORLD_SIZE
from remote.plan.plan import Script
from remote.study.mistakes import StudyMistakes, format_toml
from remote.study.study import REPETITION, Cell, CellPlace, Labels
from remote.study.tables import (
    NUMBER_KEYS,
    PlaceKeys,
    belongs_to_top,
    format_label,
    place_cell,
    read_table,
)
from training.registry import did_you_mean

SCRIPT = "script"
"""The key of [base] that has the script."""
BEFORE = "before"
"""The key of [base] that has the command which runs on each host before the ranks."""
PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")
"""An argument that a cell sets."""
RANK_PLACES = {placeholder.name for placeholder in PLACEHOLDERS}
"""Arguments that the start of a rank sets."""
SIZES = ("nodes", "processes", "ranks")
"""Settings that each cell has, whether they are written or not."""
SETTINGS_OF_SIZES = {WORLD_SIZE.name: "ranks", LOCAL_WORLD_SIZE.name: "processes"}
"""The settings by which a cell says how many ranks there are."""
WRITE = 'script = "train.py --lr {lr}"'


def read_script(base: Mapping[str, Any], mistakes: StudyMistakes) -> tuple[str, ...]:
    """Return a script and its arguments, with placeholders; () if there is a mistake."""
    script_text = base.get(SCRIPT)
    if SCRIPT not in base:
        mistakes.add_at("base", f"[base] has no script: write {WRITE}", "base")
    elif not isinstance(script_text, str) or not script_text.strip():
        mistakes.add_at(SCRIPT, f"script = {format_toml(script_text)}: write {WRITE}", "base")
    else:
        try:
            return tuple(shlex.split(script_text))
        except ValueError as error:
            mistakes.add_at(SCRIPT, f"script: {str(error).lower()}: write {WRITE}", "base")
    return ()


def read_before(base: Mapping[str, Any], mistakes: StudyMistakes) -> str:
    """Return the command that runs before the ranks; "" if there is none, or it has a mistake."""
    command = base.get(BEFORE, "")
    if isinstance(command, str):
        return command
    mistakes.add_at(
        BEFORE, f'before = {format_toml(command)}: write before = "mkdir -p output"', "base"
    )
    return ""


@dataclass(frozen=True)
class ScriptCells:
    """Makes cells of a script from its arguments."""

    mistakes: StudyMistakes
    script: Sequence[str]
    """The script and its arguments, with placeholders; () if it has a mistake."""
    base: Mapping[str, Any]
    """The values that all cells share."""
    num_hosts: int
    """The number of hosts that there are; 0 if it is not known."""
    before: str = ""
    """The command that runs on each host before the ranks, with placeholders; "" if there is
    none."""

    def read_cell(self, labels: Labels, varied: Mapping[str, Any]) -> Cell | None:
        """Return the cell that varies these values, or None if they have a mistake."""
        num_mistakes = len(self.mistakes)
        place_settings: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for key, value in {**self.base, **varied}.items():
            target_table = place_settings if key in PlaceKeys.model_fields else values
            target_table[key] = value
        checked_place = read_table(PlaceKeys, place_settings, self.mistakes)
        cell_place = place_cell(
            checked_place.model_dump(exclude_unset=True), self.num_hosts, self.mistakes
        )
        self._check_values(values, {*SIZES, *checked_place.model_fields_set})
        if len(self.mistakes) > num_mistakes or not cell_place:
            return None
        return Cell(
            labels,
            self._fill(_values_of_place(cell_place) | values),
            cell_place,
            is_on_all_hosts=checked_place.model_fields_set.isdisjoint(NUMBER_KEYS),
        )

    def _check_values(self, values: Mapping[str, Any], known_keys: Collection[str]) -> None:
        """Check that each value has a placeholder, and each placeholder a value, or one of the keys
        that are known anyway."""
        placeholders = PLACEHOLDER.findall(" ".join((*self.script, self.before)))
        for key, value in values.items():
            if key in SETTINGS_OF_SIZES:
                setting = SETTINGS_OF_SIZES[key]
                self.mistakes.add_at(key, f"{key} is a result: write {setting} = … instead")
            elif key not in placeholders and self.script:
                self._note_without_placeholder(key, placeholders)
            if not isinstance(value, str | int | float):
                value_text = format_toml(value)
                self.mistakes.add_at(
                    key, f"{key} = {value_text}: write a text in quotes, or a number"
                )
        for placeholder in placeholders:
            # The number of the repetition is put in by the trial, the place of a rank by its start.
            is_put_in_later = f"{{{placeholder}}}" == REPETITION or placeholder in RANK_PLACES
            has_value = placeholder in values or placeholder in known_keys
            if not has_value and not is_put_in_later:
                self.mistakes.add_at(
                    SCRIPT,
                    f"{{{placeholder}}} has no values: write {placeholder} = [1, 2] below [axes], "
                    f"or {placeholder} = 1 below [base]",
                    "base",
                )

    def _note_without_placeholder(self, key: str, placeholders: Sequence[str]) -> None:
        advice = f"write --{key} {{{key}}} into it"
        top_text = belongs_to_top(key)
        if top_text:
            mistake_text = f"{top_text}; if it is an argument of the script, {advice}"
        else:
            nearest_text = did_you_mean(key, placeholders) or f": {advice}"
            mistake_text = f"{key} is not in the script{nearest_text}"
        self.mistakes.add_at(key, mistake_text)

    def _fill(self, values: Mapping[str, Any]) -> Script:
        """Return the script with values in place of its placeholders.

        The number of the repetition follows with each trial.
        """
        value_texts = {key: format_label(value) for key, value in values.items()}

        def replace(placeholder: re.Match[str]) -> str:
            return value_texts.get(placeholder[1], placeholder[0])

        return Script(
            tuple(PLACEHOLDER.sub(replace, word) for word in self.script),
            before=PLACEHOLDER.sub(replace, self.before),
        )


def _values_of_place(cell_place: CellPlace) -> dict[str, Any]:
    """Return what the settings of a cell's place stand for in a script."""
    return {"ranks": cell_place.ranks, **vars(cell_place)}
