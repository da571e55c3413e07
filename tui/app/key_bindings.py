"""An app whose keys are those of the table of actions: the user's own, all commands, the help."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.app.command_palette import Commands
from tui.kit import keymap
from tui.kit.actions import ACTIONS_BY_NAME, Place
from tui.kit.bindings import bindings, focus_places
from tui.kit.dialogs import Dialog
from tui.kit.key_names import format_key
from tui.kit.themes import Themed

READING = 15.0
"""Seconds for which it is shown what is wrong with the user's keys."""


class Keyed(Themed):
    """See `tui.kit.actions` and `tui.kit.keymap`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.EVERYWHERE)
    ENABLE_COMMAND_PALETTE = False  # its key is one of ours
    ESCAPE_TO_MINIMIZE = False  # so is this one, which leaves a search first

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        found = keymap.read(keymap.path())
        self.keymap = found.keys
        """The keys that the user has chosen."""
        self._remarks = found.remarks

    def on_mount(self) -> None:
        self.set_keymap(dict(self.keymap))

    def tell_remarks(self) -> None:
        """Say what is wrong with the user's keys; a screen has to be there."""
        for remark in self._remarks:
            self.notify(remark, severity="warning", timeout=READING, markup=False)

    def action_command_palette(self) -> None:
        """Open the list of all commands, once: two lists over each other fail in Textual."""
        if not isinstance(self.screen, (Commands, Dialog)):
            self.push_screen(Commands())

    def get_system_commands(self, screen: Screen[Any]) -> Iterator[SystemCommand]:
        """List all commands: the actions that work here, then Textual's own commands."""
        listed = {"Keys", "Commands"}  # the help replaces the first, and this is the second
        listed |= {"Maximize", "Minimize"}  # as Zoom does
        for node, binding, enabled, help_text in screen.active_bindings.values():
            name = binding.description
            if enabled and binding.id and name not in listed:
                listed.add(name)
                act = partial(self.run_action, binding.action, node)
                about = f"{help_text} (key {self.get_key_display(binding)})"
                yield SystemCommand(name, about, act)
                action = ACTIONS_BY_NAME.get(binding.id)
                for other in action.also if action else ():
                    yield SystemCommand(f"{other}: {name}", about, act, discover=False)
        for command in super().get_system_commands(screen):
            if command.title not in listed:
                yield command

    def get_key_display(self, binding: Binding) -> str:
        """How the key of a binding is format_key."""
        return format_key(binding.key)

    def action_help(self) -> None:
        from tui.app.help import HelpDialog

        self.push_screen(HelpDialog(self, focus_places(self.screen)))
