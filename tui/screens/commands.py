"""The list of all commands."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette


class Commands(CommandPalette):
    """Textual's, for any size of the terminal."""

    def _action_command_list(self, action: str) -> None:
        """Pass on an action, unless there is no room for the list: Textual would fail then."""
        if self.query_one(CommandList).size.height:
            super()._action_command_list(action)
