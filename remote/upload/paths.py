"""Paths of files as messages show them, and names of hosts as those of folders."""

from __future__ import annotations

import re
from collections.abc import Sequence

from remote.upload.sources import NAMED, printable

SHORT = 200
"""Characters of a path in a message."""


def list_paths(paths: Sequence[str]) -> str:
    """Some of the paths, and how many more there are."""
    more = len(paths) - NAMED
    return ", ".join(map(shorten_path, paths[:NAMED])) + (f" and {more:,} more" if more > 0 else "")


def shorten_path(path: str) -> str:
    """A path, fit for a message."""
    return printable(path if len(path) <= SHORT else f"{path[:SHORT]}…")


def folder_name(host: str) -> str:
    """The name of a host as that of a folder. No two hosts have the same."""
    name = re.sub(
        r"[^A-Za-z0-9_.@:-]",
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()),
        host,
    )
    return name.replace(".", "%2E", 1) if name.startswith(".") else name
