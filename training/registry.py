"""The names that a folder of modules offers, listed without importing any of them.

`training/sync`, `training/models` and `training/datasets` hold one module per choice; a new file
there is a new choice. A module whose name takes an argument has a line `FORM = "torchvision/NAME"`
at the top level: its name, a separator, and NAME (letters, digits and underscores) or PATH
(anything).

What must be known of a module before it is imported, it declares as literals at the top level (see
`read_constant`):

- a sync method: `OPTIONS` (see `training.options`) and `TRAITS` (see `training.traits`);
- a model: `IMAGE_SIZES = (32, 35)`, the smallest and the largest side of the images that it takes
  (0: no limit), or a dictionary of such pairs by the beginning of the argument; `LR`, its default
  learning rate, if that is not `Job`'s; `PARAMETERS = (60_706, 150, 85)`, how many it has in any
  case, and how many more for each channel of the images and each class;
- a data set: `IMAGE_SIZE`, the side of its images, or `DEFAULT_SIZE`, the side to which it resizes
  images unless the model needs another; `TRAINING = (60_000, 1, 10)`, its training images, their
  channels and its classes; `FILES`, the files that it reads in the data folder (a .gz
  file may also be there unpacked), `ARCHIVE`, a file with all of them, each with its published MD5
  sum, `SOURCES`, the beginnings of the addresses from which it downloads them (any one will do),
  `DOWNLOAD_MB`, the size of the download, and `ROOM_MB`, the size of the unpacked files, where that
  is more.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from training.mistake import MistakeError

ROOT = Path(__file__).parent
WHAT = {"sync": "sync method", "models": "model", "datasets": "data set"}
FORM = re.compile(r'^FORM = "([^"]+)"$', re.MULTILINE)
ARGUMENT_FORM = re.compile(r"(.+?)(NAME|PATH)")
ARGUMENTS = {"NAME": r"(\w+)", "PATH": r"(.+)"}


class UnknownName(MistakeError):
    """A name that the folder does not offer; the text lists its names, and the nearest. `problem`
    and `hint` are for whom the name is beside it: see `training.mistake`."""

    def __init__(self, text: str, problem: str = "", hint: str = "") -> None:
        super().__init__(text)
        self.problem = problem
        self.hint = hint


@dataclass(frozen=True)
class Choice:
    """A module of a folder. `prefix` is its form up to the argument, "" if it takes none; `pattern`
    matches its names, with the argument as a group."""

    module: str
    form: str
    prefix: str
    pattern: str


def list_names(folder: str) -> tuple[str, ...]:
    """Return the names of `training/<folder>`, in alphabetical order; a name that takes an argument
    as its form, such as `torchvision/NAME`.

    Sub-folders, and modules whose names start with an underscore, are no choices.
    """
    return tuple(choice.form for choice in _list_choices(ROOT / folder))


@cache
def _list_choices(folder: Path) -> list[Choice]:
    # Lists the files; no module is imported.
    modules = pkgutil.iter_modules([str(folder)])
    module_names = [module.name for module in modules if not module.ispkg]
    return [_read_choice(folder, name) for name in sorted(module_names) if not name.startswith("_")]


def _read_choice(folder: Path, module: str) -> Choice:
    form_line = FORM.search((folder / f"{module}.py").read_text())
    form = form_line[1] if form_line else module
    form_match = ARGUMENT_FORM.fullmatch(form)
    if form_match is None:
        return Choice(module, form, "", re.escape(form))
    prefix, argument = form_match.groups()
    return Choice(module, form, prefix, re.escape(prefix) + ARGUMENTS[argument])


def argument_prefix(form: str) -> str:
    """Return the part of a form before the argument, such as `torchvision/`; empty for a plain
    name."""
    match = ARGUMENT_FORM.fullmatch(form)
    return match[1] if match else ""


def form_of(folder: str, name: str) -> str:
    """Return the form to which a name belongs, one of the `list_names` of the folder."""
    for choice in _list_choices(ROOT / folder):
        if choice.prefix and name.startswith(choice.prefix):
            return choice.form
    return name


def split_name(folder: str, name: str) -> tuple[str, tuple[str, ...]]:
    """Split a name into its module and its argument, if it takes one. Raises: UnknownName."""
    for choice in _list_choices(ROOT / folder):
        name_match = re.fullmatch(choice.pattern, name)
        if name_match:
            return choice.module, name_match.groups()
        if choice.prefix and re.match(rf"{choice.module}\b", name):
            hint = f"write {choice.form}"
            raise UnknownName(f"{WHAT[folder]} {name!r}: {hint}", hint=hint)
    known_names = list_names(folder)
    problem = f"unknown {WHAT[folder]}"
    raise UnknownName(
        f"{problem} {name!r}{did_you_mean(name, known_names)} (known: {', '.join(known_names)})",
        problem,
        suggest_names(name, known_names),
    )


def with_path(folder: str, name: str, change: Callable[[str], str]) -> str:
    """Return the name with its PATH changed; the same name, if it takes no PATH. Raises:
    UnknownName."""
    _, path_argument = split_name(folder, name)
    form = form_of(folder, name)
    if not form.endswith("PATH"):
        return name
    return form.removesuffix("PATH") + change(*path_argument)


def source_file(folder: str, name: str) -> Path:
    """Return the file of the module of a name. Raises: UnknownName."""
    return ROOT / folder / f"{split_name(folder, name)[0]}.py"


def read_constant(folder: str, name: str, constant: str, default: Any = None) -> Any:
    """Read the literal that the module of a name assigns to a constant, or the default. The source
    is not run. Raises: UnknownName."""
    return _read_literals(source_file(folder, name)).get(constant, default)


@cache
def _read_literals(path: Path) -> dict[str, Any]:
    """Return the literals that a module assigns to upper-case names at its top level."""
    literals: dict[str, Any] = {}
    # Parsed, not imported: a method would import torch, which takes seconds.
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                with suppress(ValueError):  # an expression
                    literals[name] = ast.literal_eval(value)
    return literals


def load_module(folder: str, name: str) -> ModuleType:
    """Import the module of a name. Raises: UnknownName."""
    return importlib.import_module(f"training.{folder}.{split_name(folder, name)[0]}")


def load_function(folder: str, name: str, function_name: str) -> Callable[..., Any]:
    """Return the function `of` of the module of a name, with the name's argument bound, if it takes
    one. Raises: UnknownName."""
    return partial(getattr(load_module(folder, name), function_name), *split_name(folder, name)[1])


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return the end of an error, ": did you mean 'x'?", if a known name is near; otherwise
    nothing."""
    nearest_name = _find_nearest(name, known_names)
    return f": did you mean {nearest_name!r}?" if nearest_name else ""


def suggest_names(name: str, known_names: Sequence[str]) -> str:
    """Say what to write in place of an unknown name: the nearest one, and all."""
    nearest_name = _find_nearest(name, known_names)
    listing = ", ".join(known_names)
    return (
        f"did you mean {nearest_name!r}? (known: {listing})"
        if nearest_name
        else f"write one of {listing}"
    )


def _find_nearest(name: str, known_names: Iterable[str]) -> str:
    """Return the known name that is most like this one, "" if none is like it. The dashes before a
    flag, which all flags have, make none of them alike."""
    by_bare_name = {known_name.lstrip("-"): known_name for known_name in known_names}
    close_names = difflib.get_close_matches(name.lstrip("-"), list(by_bare_name), 1, 0.5)
    return by_bare_name[close_names[0]] if close_names else ""
