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


def _name_character(character: str) -> str:
    """Return Textual's name of a character."""
    if character == ",":  # it separates the keys of a binding
        return "comma"
    (binding,) = Binding.make_bindings([(character, "")])
    return binding.key


_CHARACTERS = {
    _name_character(character): character
    for character in string.digits + string.ascii_letters + string.punctuation
}
# Textual lists events such as "<scroll-up>" among its keys.
_KNOWN = {key.value for key in Keys if not key.value.startswith("<")} | set(_CHARACTERS)


def parse_key(text: str) -> str:
    """Return Textual's name of a key that a person has written, such as `?`, `S` or `ctrl+x`.

    Raises: ValueError, if there is no such key.
    """
    # A plus sign is a key, too.
    *modifiers, last_word = [text] if len(text) == 1 else text.split("+")
    key_name = _name_character(last_word) if len(last_word) == 1 else last_word.lower()
    key_name = _SPELLINGS.get(key_name, key_name)
    if key_name not in _KNOWN or not set(modifiers) <= set(_MODIFIERS):
        hint = 'write keys such as "S", "ctrl+x", "f5" or "pgup"'
        raise ValueError(f"there is no key {text!r}; {hint}")
    return "+".join((*modifiers, key_name))


def format_key(name: str) -> str:
    """Return how the key of that name is written for people."""
    *modifiers, last_word = name.split("+")
    key_text = _CHARACTERS.get(last_word) or _SHORT.get(last_word, last_word)
    return "+".join((*modifiers, key_text))
