"""The names of keys: as Textual calls them, and as people write and read them."""

from __future__ import annotations

import string

from textual.binding import Binding
from textual.keys import Keys

_MODIFIERS = ("ctrl", "shift", "alt")
_SPELLINGS = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "pgup": "pageup",
    "pgdn": "pagedown",
}
"""Other spellings of names."""
_SHORT = {"escape": "esc", "pageup": "pgup", "pagedown": "pgdn"}
"""How some names are written, to save room."""


def _of(character: str) -> str:
    """Textual's name of a character."""
    return next(iter(Binding.make_bindings([(character, "")]))).key


_CHARACTERS = {
    _of(character): character
    for character in string.digits + string.ascii_letters + string.punctuation
    if character != ","
} | {"comma": ","}
_KNOWN = {key.value for key in Keys if not key.value.startswith("<")} | set(_CHARACTERS)


def named(key: str) -> str:
    """Textual's name of a key that a person has written, such as `?`, `S`, `ctrl+x` or `pgup`.

    Raises: ValueError, where there is no such key.
    """
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    last = "comma" if last == "," else _of(last) if len(last) == 1 else last.lower()
    last = _SPELLINGS.get(last, last)
    if last not in _KNOWN or any(modifier not in _MODIFIERS for modifier in modifiers):
        raise ValueError(f"there is no key {key!r}")
    return "+".join((*modifiers, last))


def written(key: str) -> str:
    """How the key of that name is written for people."""
    *modifiers, last = key.split("+")
    return "+".join((*modifiers, _CHARACTERS.get(last, _SHORT.get(last, last))))
