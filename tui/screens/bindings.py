"""The keys of a screen, as commands for the list of all commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

TEXTUAL = {binding.action for binding in Screen.BINDINGS if isinstance(binding, Binding)}
"""Actions of every screen, such as moving the focus; they are not listed."""
LISTED = {"Quit", "Keys"}
"""Commands that the app lists itself, and those that the help replaces."""
STUDY_KEYS = """\
up, down     choose a cell of the study, or a run of the cell
enter        open the run under way, or the runs of a cell
d            the runs of a cell: values, and why some failed
tab          scroll the answer, which grows until the end
esc          back to the cells
q            quit; asks first while the study is running
"""
"""The keys of the screens of a study, for their help."""


def own_bindings(screen: Screen[Any]) -> Iterator[tuple[DOMNode, Binding]]:
    """Yield each named key of the screen that works now, once."""
    seen = set(LISTED)
    for node, binding, enabled, _ in screen.active_bindings.values():
        name = binding.description
        if node is screen and enabled and name and name not in seen:
            seen.add(name)
            if binding.action not in TEXTUAL:
                yield node, binding
