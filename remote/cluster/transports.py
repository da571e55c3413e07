"""The names of the transports: the values that a host's `transport` may have.

A transport is a module or a package of `remote/transport` that assigns `TRANSPORT` at its top
level. Its name is the name of that module. Nothing is imported here.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "remote.transport"
DECLARES = re.compile(r"^TRANSPORT\b.*=", re.MULTILINE)


def names() -> tuple[str, ...]:
    """Return the names of all transports, in alphabetical order."""
    found = pkgutil.iter_modules(_folders())
    return tuple(sorted(module.name for module in found if is_transport(module.name)))


@cache
def is_transport(name: str) -> bool:
    """Return True if there is a transport of this name."""
    if not name.isidentifier():
        return False
    paths = (f"{name}.py", f"{name}/__init__.py")
    files = (Path(folder, path) for folder in _folders() for path in paths)
    return any(file.is_file() and bool(DECLARES.search(file.read_text())) for file in files)


def _folders() -> Iterable[str]:
    package = find_spec(PACKAGE)
    return (package and package.submodule_search_locations) or ()
