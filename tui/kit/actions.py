"""The table of actions: all that a key does, and where.

From it follow the keys of screens and panels, the line of keys, the help, the list of commands, and
the names in `keys.toml`, see `tui.kit.keymap`. To add an action, write a row into
`tui.kit.action_table`, and give the screen or panel of that place the method `action_CALL`.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from tui.kit.action_table import FIXED, PRIORITY, SHOWN, TABLE, Row
from tui.kit.key_names import parse_key


class KeyPlace(Enum):
    """Where an action works; the value is its title in the help. A screen, panel or widget names
    its own in `place`, and has its keys by `BINDINGS = bindings(place)`."""

    HOME = "list of runs"
    RUN = "run"
    SLIDER = "time slider"
    RANKS = "table of ranks"
    HOSTS = "table of hosts"
    MAP = "ranks over time"
    CHART = "chart"
    LOG = "log"
    CHART_LIST = "list of charts"
    GRID = "grid of charts"
    RANK = "page of a rank"
    STACKS = "stacks"
    CHECKS = "checks of the hosts"
    FIELD = "fields of the launch form"
    FORM = "launch form"
    CHOICE = "choice"
    CHECK_LIST = "list with check marks"
    PRESETS = "presets and recent jobs"
    STUDY = "study"
    CELL = "runs of a cell"
    COMPARE = "comparison"
    LIST = "list"
    ROWS = "row of the table of ranks"
    TEXT = "text"
    DIALOG = "question"
    EVERYWHERE = "everywhere"


WITHIN = {
    KeyPlace.LOG: KeyPlace.RUN,
    KeyPlace.CHART: KeyPlace.RUN,
    KeyPlace.RANKS: KeyPlace.RUN,
    KeyPlace.HOSTS: KeyPlace.RUN,
    KeyPlace.MAP: KeyPlace.RUN,
}
"""The screen of each panel. A key that neither the focused panel nor the screen uses is for the
first of these panels that uses it."""


class Action(Struct, frozen=True):
    """What a key does."""

    name: str
    """Stands for the action in `keys.toml`."""
    keys: str
    """Its default keys, with commas between them."""
    call: str
    """Textual's action: `zoom` or `move(1)` calls `action_zoom` or `action_move` of the place,
    `app.quit` that of the app."""
    label: str
    """Its name in the list of commands and in the line of keys."""
    help: str
    is_shown: bool
    """Whether the line of keys shows it."""
    has_priority: bool
    """Whether its keys work in text fields, too."""
    is_fixed: bool
    """Whether nobody can change its keys."""

    @property
    def default_keys(self) -> tuple[str, ...]:
        """Return its default keys, by Textual's names."""
        return tuple(parse_key(key) for key in self.keys.split(","))


def _make_action(row: Row) -> Action:
    name, keys, call, label, help, *traits = row
    return Action(
        *(name, keys, call, label, help),
        is_shown=SHOWN in traits,
        has_priority=PRIORITY in traits,
        is_fixed=FIXED in traits,
    )


ACTIONS = {KeyPlace[name]: tuple(map(_make_action, rows)) for name, rows in TABLE.items()}
ACTIONS_BY_NAME = {action.name: action for actions in ACTIONS.values() for action in actions}
