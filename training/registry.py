"""The names that a folder of modules offers, listed without importing any of them.

`training/sync`, `training/models` and `training/datasets` hold one module per choice; a new file there is a new choice.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent


class UnknownName(ValueError):
    """A name that the folder does not offer; the text lists those it does, and the nearest."""


def names(folder: str) -> tuple[str, ...]:
    """What `training/<folder>` offers, in alphabetical order. Modules whose names start with an underscore are its own."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules([str(ROOT / folder)]) if not m.name.startswith("_")))


def check(folder: str, name: str) -> str:
    """`name`, if the folder offers it.

    Raises: UnknownName.
    """
    known = names(folder)
    if name in known:
        return name
    what = {"sync": "sync method", "models": "model", "datasets": "data set"}[folder]
    raise UnknownName(f"unknown {what} {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})")


def source(folder: str, name: str) -> Path:
    """The file of the module behind a name. Raises: UnknownName."""
    return ROOT / folder / f"{check(folder, name)}.py"


def load(folder: str, name: str) -> ModuleType:
    """The module behind a name, imported.

    Raises: UnknownName.
    """
    return importlib.import_module(f"training.{folder}.{check(folder, name)}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error: ": did you mean 'x'?" where a known name is near, else nothing."""
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f": did you mean {near[0]!r}?" if near else ""
