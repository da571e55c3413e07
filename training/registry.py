"""The names that a folder of modules offers, listed without importing any of them.

`training/sync`, `training/models` and `training/datasets` hold one module per choice; a new file there is a new choice. One
that takes an argument says so by a line `FORM = "torchvision/NAME"` at the top level: its own name, a character, what stands
there; a NAME is letters, digits and underscores, a PATH is anything.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent
WHAT = {"sync": "sync method", "models": "model", "datasets": "data set"}
FORM = re.compile(r'^FORM = "([^"]+)"$', re.MULTILINE)
ARGUMENTS = {"NAME": r"\w+", "PATH": r".+"}


class UnknownName(ValueError):
    """A name that the folder does not offer; the text lists those it does, and the nearest."""


def names(folder: str) -> tuple[str, ...]:
    """What `training/<folder>` offers, in alphabetical order; one with an argument as its form, such as `torchvision/NAME`.

    Modules whose names start with an underscore are its own.
    """
    modules = sorted(m.name for m in pkgutil.iter_modules([str(ROOT / folder)]) if not m.name.startswith("_"))
    return tuple(_form(folder, module) for module in modules)


def _form(folder: str, module: str) -> str:
    found = FORM.search((ROOT / folder / f"{module}.py").read_text())
    return found[1] if found else module


def prefix(form: str) -> str:
    """What stands before the argument in a form, such as `torchvision/`; empty for a plain name."""
    word = next((word for word in ARGUMENTS if form.endswith(word)), "")
    return form.removesuffix(word) if word else ""


def form_of(folder: str, name: str) -> str:
    """Which of the `names` of a folder a name is of."""
    return next((form for form in names(folder) if prefix(form) and name.startswith(prefix(form))), name)


def check(folder: str, name: str) -> str:
    """`name`, if the folder offers it.

    Raises: UnknownName.
    """
    split(folder, name)
    return name


def split(folder: str, name: str) -> tuple[str, tuple[str, ...]]:
    """The module behind a name, and its argument, if it takes one. Raises: UnknownName."""
    known = names(folder)
    for form in known:
        before = prefix(form)
        if not before and form == name:
            return name, ()
        module, pattern = before[:-1], ARGUMENTS.get(form.removeprefix(before), "")
        if before and name.startswith(before) and re.fullmatch(pattern, name.removeprefix(before)):
            return module, (name.removeprefix(before),)
        if before and re.match(rf"{module}\b", name):
            raise UnknownName(f"{WHAT[folder]} {name!r}: write {form}")
    raise UnknownName(f"unknown {WHAT[folder]} {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})")


def with_path(folder: str, name: str, change: Callable[[str], str]) -> str:
    """The name with its PATH changed; the same, where it takes none. Raises: UnknownName."""
    (_, argument), form = split(folder, name), form_of(folder, name)
    return prefix(form) + change(argument[0]) if form.endswith("PATH") else name


def source(folder: str, name: str) -> Path:
    """The file of the module behind a name. Raises: UnknownName."""
    return ROOT / folder / f"{split(folder, name)[0]}.py"


def load(folder: str, name: str) -> ModuleType:
    """The module behind a name, imported.

    Raises: UnknownName.
    """
    return importlib.import_module(f"training.{folder}.{split(folder, name)[0]}")


def function(folder: str, name: str, of: str) -> Callable[..., Any]:
    """The function `of` of the module behind a name, given the name's argument where it takes one. Raises: UnknownName."""
    return partial(getattr(load(folder, name), of), *split(folder, name)[1])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error: ": did you mean 'x'?" where a known name is near, else nothing."""
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f": did you mean {near[0]!r}?" if near else ""
