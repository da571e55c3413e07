"""What a report says of this machine: no folders of it, and no names of users."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from remote.study.folder import StudyCall
from remote.study.repeat import study_words

PATH_ENDS = r"""\s:;,'"()\[\]"""
"""Characters, for a set of a regular expression, at which a path in a text ends."""
HOST_OPTION = "host"
"""The option that lists hosts, such as ada@10.0.0.1:4."""
USER = re.compile(r"[^\s,@]*@")
HOME = re.compile(r"~(?:/|$)")


def shorten_paths(value: Any) -> Any:
    """Return the same with paths, such as that of the data, from the present folder or the home
    folder on: a reader has no other use for them. A text may be a path, or have some in it."""
    if isinstance(value, dict):
        return {key: shorten_paths(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shorten_paths(item) for item in value]
    if not isinstance(value, str):
        return value
    folders = [(os.getcwd(), ".", ""), (os.path.expanduser("~"), "~", "~/")]
    # From /home, a path in the home folder would still have the name of the user.
    folders.sort(key=lambda names: len(names[0]), reverse=True)
    for folder, name_alone, name_before in folders:
        value = _shorten_folder(value, folder, name_alone, name_before)
    return value


def _shorten_folder(text: str, folder: str, name_alone: str, name_before: str) -> str:
    """Return a text with another name for a folder: one if it stands alone, one before a path."""
    if not folder.strip("/"):  # all paths are in the root
        return text
    # Also behind the = of an option, but neither /mnt/root for /root nor /root-2.
    begin = rf"(?<![^={PATH_ENDS}]){re.escape(folder)}"
    text = re.sub(rf"{begin}/+(?=[^/{PATH_ENDS}])", lambda _: name_before, text)
    return re.sub(rf"{begin}/*(?![^{PATH_ENDS}])", lambda _: name_alone, text)


def write_study_command(name: str, call: StudyCall) -> str:
    """Return the command that makes a study anew, with short paths and without users of hosts."""
    places = dict(call.places)
    if HOST_OPTION in places:
        places[HOST_OPTION] = USER.sub("", places[HOST_OPTION])
    return _join_words(shorten_paths(study_words(name, replace(call, places=places))))


def _join_words(words: Sequence[str]) -> str:
    """Return words for a shell that is to find the home folder for ~."""
    quoted_words = []
    for word in words:
        home_match = HOME.match(word)
        # In quotes, ~ is a name like any other.
        unquoted = home_match[0] if home_match else ""
        rest = word.removeprefix(unquoted)
        quoted_words.append(unquoted + shlex.quote(rest) if rest else unquoted or "''")
    return " ".join(quoted_words)
