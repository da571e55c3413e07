"""The list of all commands, which `ctrl+p` opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from textual.app import App, SystemCommand
from textual.command import CommandPalette
from textual.screen import Screen

from tui.kit.action_table import OTHER_WORDS
from tui.kit.key_names import format_key

NOT_LISTED = ("Keys", "Commands", "Maximize", "Minimize")
"""Commands of Textual that the help, this list itself and Zoom replace."""


class ActionPalette(CommandPalette):
    """Textual's, which fails if keys move in the list before it is laid out."""

    def _action_command_list(self, action: str) -> None:
        with suppress(KeyError):  # the place of a line that is not there yet
            super()._action_command_list(action)


def list_commands(
    app: App[Any], screen: Screen[Any], textual_commands: Iterable[SystemCommand]
) -> Iterator[SystemCommand]:
    """List the actions that work on a screen, then Textual's own commands."""
    listed = set(NOT_LISTED)
    for node, binding, is_enabled, help_text in screen.active_bindings.values():
        name = binding.description
        if not is_enabled or not binding.id or name in listed:
            continue
        listed.add(name)
        run: Callable[[], Any] = partial(app.run_action, binding.action, node)
        about = f"{help_text} (key {format_key(binding.key)})"
        yield SystemCommand(name, about, run)
        for other_words in OTHER_WORDS.get(binding.id, ()):
            yield SystemCommand(f"{other_words}: {name}", about, run, discover=False)
    for command in textual_commands:
        if command.title not in listed:
            yield command
