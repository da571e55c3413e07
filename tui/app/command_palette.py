"""The list of all commands."""

from __future__ import annotations

from contextlib import suppress

from textual.command import CommandPalette


class Commands(CommandPalette):
    """Textual's, which fails where keys move in the list before it is laid out."""

    def _action_command_list(self, action: str) -> None:
        with suppress(KeyError):  # the place of a line that is not there yet
            super()._action_command_list(action)
