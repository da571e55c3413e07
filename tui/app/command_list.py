"""The list of all commands, which `ctrl+p` opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from textual.app import App, SystemCommand
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen

from tui.kit.action_table import OTHER_WORDS
from tui.kit.actions import KeyPlace
from tui.kit.key_names import format_key

NOT_LISTED = ("Keys", "Commands", "Maximize", "Minimize")
"""Commands of Textual that the help, this list itself and Zoom replace."""
NAME_WIDTH = 24
KEY_WIDTH = 9
"""Columns of the names of commands, and of their keys."""


class ListedCommand(NamedTuple):
    """A command in the list."""

    title: str
    help: str
    run: Callable[[], Any]
    place: str = KeyPlace.EVERYWHERE.value
    """Where it works, which groups the list."""
    key: str = ""
    """Its key, as people write it."""
    is_shown: bool = True
    """Whether it is in the list before anything is typed."""

    def draw(self, title: Content) -> Content:
        """Return the line of the command, with a title in which matches may be marked."""
        gap = " " * max(1, NAME_WIDTH - title.cell_length)
        key = (f"{self.key:<{KEY_WIDTH}}", "bold $primary")
        return Content.assemble(title, gap, key, " ", (self.place, "$text-muted"))


class ActionProvider(Provider):
    """Finds commands, in their order: those of the focus first, then those of other places."""

    @property
    def _commands(self) -> Iterable[ListedCommand]:
        return list_commands(self.app, self.screen, App.get_system_commands(self.app, self.screen))

    async def discover(self) -> Hits:
        """Yield what is listed before anything is typed."""
        for command in self._commands:
            if command.is_shown:
                line = command.draw(Content(command.title))
                yield DiscoveryHit(line, command.run, command.title, command.help)

    async def search(self, query: str) -> Hits:
        """Yield the commands whose titles match."""
        matcher = self.matcher(query)
        for command in self._commands:
            score = matcher.match(command.title)
            if score > 0:
                line = command.draw(matcher.highlight(command.title))
                yield Hit(score, line, command.run, command.title, command.help)


class ActionPalette(CommandPalette):
    """Textual's, which fails if keys move in the list before it is laid out."""

    def __init__(self) -> None:
        super().__init__([ActionProvider])

    def _action_command_list(self, action: str) -> None:
        with suppress(KeyError):  # the place of a line that is not there yet
            super()._action_command_list(action)


def list_commands(
    app: App[Any], screen: Screen[Any], textual_commands: Iterable[SystemCommand]
) -> Iterator[ListedCommand]:
    """List the actions that work on a screen by their places, then Textual's own commands, then
    the charts of a run by their names."""
    listed = set(NOT_LISTED)
    for node, binding, is_enabled, help_text in screen.active_bindings.values():
        name = binding.description
        if not is_enabled or not binding.id or name in listed:
            continue
        listed.add(name)
        run: Callable[[], Any] = partial(app.run_action, binding.action, node)
        node_place = getattr(node, "place", None)
        place = node_place if isinstance(node_place, KeyPlace) else KeyPlace.EVERYWHERE
        command = ListedCommand(name, help_text, run, place.value, format_key(binding.key))
        yield command
        for other_words in OTHER_WORDS.get(binding.id, ()):
            yield command._replace(title=f"{other_words}: {name}", is_shown=False)
    for title, help_text, callback, discover in textual_commands:
        if title not in listed:
            yield ListedCommand(title, help_text, callback, is_shown=discover)
    for title, help_text, show in getattr(screen, "chart_commands", list)():
        yield ListedCommand(f"Chart: {title}", help_text, show, KeyPlace.CHART.value)
