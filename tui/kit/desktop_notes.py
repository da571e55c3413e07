"""Notes of the desktop, by sequences that some terminals take and others ignore."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from textual.app import App

from remote.sanitise import one_line

LONGEST = 200
"""Characters of a note."""
OSC_777 = ("rxvt", "foot")
"""Names in TERM of terminals that take OSC 777, with a title."""
OSC_9 = (
    "xterm",
    "tmux",
    "screen",
    "alacritty",
    "wezterm",
    "ghostty",
    "konsole",
    "iterm",
    "contour",
)
"""The same of OSC 9, or of those that ignore it. Others, such as the Linux console, print it."""


def show_desktop_note(app: App[Any], text: str) -> None:
    """Have the terminal show a note on the desktop, where it may be able to."""
    driver = app._driver  # Textual has no other way to write a sequence
    sequence = note_sequence(text, os.environ)
    if driver is not None and sequence and not app.is_headless:
        driver.write(sequence)


def note_sequence(text: str, environment: Mapping[str, str]) -> str:
    """Make the sequence of a note for the terminal of this environment; "" where none is safe."""
    terminal_name = environment.get("TERM", "")
    note_text = one_line(text)[:LONGEST]
    if terminal_name.startswith(OSC_777) or environment.get("VTE_VERSION"):
        sequence = f"\x1b]777;notify;rankboard;{note_text}\a"
    elif terminal_name.startswith(OSC_9):
        sequence = f"\x1b]9;rankboard: {note_text}\a"
    else:
        return ""
    if "TMUX" in environment:  # which hands on only what is wrapped, if it may
        sequence = f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence
