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
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent
WHAT = {"sync": "sync method", "models": "model", "datasets": "data set"}
FORM = re.compile(r'^FORM = "([^"]+)"$', re.MULTILINE)
ARGUMENTS = {"NAME": r"\w+", "PATH": r".+"}


class UnknownName(ValueError):
    """A name that the folder does not offer; the text lists its names, and the nearest. `problem`
    and `hint` are for whom the name is beside it: see `training.mistake`."""

    def __init__(self, text: str, problem: str = "", hint: str = "") -> None:
        super().__init__(text)
        self.problem = problem
        self.hint = hint


def list_names(folder: str) -> tuple[str, ...]:
    """Return the names of `training/<folder>`, in alphabetical order; a name that takes an argument
    as its form, such as `torchvision/NAME`.

    Sub-folders, and modules whose names start with an underscore, are no choices.
    """
    return _forms(ROOT / folder)


@cache
def _forms(folder: Path) -> tuple[str, ...]:
    found = pkgutil.iter_modules([str(folder)])
    modules = [one.name for one in found if not one.ispkg and not one.name.startswith("_")]
    return tuple(_form(folder / f"{module}.py") for module in sorted(modules))


def _form(path: Path) -> str:
    found = FORM.search(path.read_text())
    return found[1] if found else path.stem


def argument_prefix(form: str) -> str:
    """Return the part of a form before the argument, such as `torchvision/`; empty for a plain
    name."""
    word = next((word for word in ARGUMENTS if form.endswith(word)), "")
    return form.removesuffix(word) if word else ""


def form_of(folder: str, name: str) -> str:
    """Return the form to which a name belongs, one of the `list_names` of the folder."""
    for form in list_names(folder):
        beginning = argument_prefix(form)
        if beginning and name.startswith(beginning):
            return form
    return name


def check_name(folder: str, name: str) -> str:
    """Return the name if the folder offers it. Raises: UnknownName."""
    split_name(folder, name)
    return name


def split_name(folder: str, name: str) -> tuple[str, tuple[str, ...]]:
    """Split a name into its module and its argument, if it takes one. Raises: UnknownName."""
    known = list_names(folder)
    for form in known:
        before = argument_prefix(form)
        if not before and form == name:
            return name, ()
        module = before[:-1]
        pattern = ARGUMENTS.get(form.removeprefix(before), "")
        if before and name.startswith(before) and re.fullmatch(pattern, name.removeprefix(before)):
            return module, (name.removeprefix(before),)
        if before and re.match(rf"{module}\b", name):
            raise UnknownName(f"{WHAT[folder]} {name!r}: write {form}", hint=f"write {form}")
    raise UnknownName(
        f"unknown {WHAT[folder]} {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})",
        f"unknown {WHAT[folder]}",
        suggest_names(name, known),
    )


def with_path(folder: str, name: str, change: Callable[[str], str]) -> str:
    """Return the name with its PATH changed; the same name, if it takes no PATH. Raises:
    UnknownName."""
    (_, argument), form = split_name(folder, name), form_of(folder, name)
    return argument_prefix(form) + change(argument[0]) if form.endswith("PATH") else name


def source_file(folder: str, name: str) -> Path:
    """Return the file of the module of a name. Raises: UnknownName."""
    return ROOT / folder / f"{split_name(folder, name)[0]}.py"


def read_constant(folder: str, name: str, constant: str, default: Any = None) -> Any:
    """Read the literal that the module of a name assigns to a constant, or the default. The source
    is not run. Raises: UnknownName."""
    return _literals(source_file(folder, name)).get(constant, default)


@cache
def _literals(path: Path) -> dict[str, Any]:
    """Return the literals that a module assigns to upper-case names at its top level. They may
    name such literals of ours that it imports or has assigned before."""
    literals: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.ImportFrom(module=str(module), names=imports) if module.startswith(
                "training."
            ):
                constants = [one.name for one in imports if one.name.isupper()]
                if constants:
                    shared = _literals(ROOT.parent / f"{module.replace('.', '/')}.py")
                    literals |= {name: shared[name] for name in constants if name in shared}
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                with suppress(ValueError):  # an expression
                    literals[name] = ast.literal_eval(_InsertLiterals(literals).visit(value))
    return literals


class _InsertLiterals(ast.NodeTransformer):
    """Replaces names by their values, as `ast.literal_eval` accepts no names."""

    def __init__(self, literals: dict[str, Any]) -> None:
        self._literals = literals

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the value of a known name."""
        return ast.Constant(self._literals[node.id]) if node.id in self._literals else node


def load_module(folder: str, name: str) -> ModuleType:
    """Import the module of a name. Raises: UnknownName."""
    return importlib.import_module(f"training.{folder}.{split_name(folder, name)[0]}")


def load_function(folder: str, name: str, of: str) -> Callable[..., Any]:
    """Return the function `of` of the module of a name, with the name's argument bound, if it takes
    one. Raises: UnknownName."""
    return partial(getattr(load_module(folder, name), of), *split_name(folder, name)[1])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error, ": did you mean 'x'?", if a known name is near; otherwise
    nothing."""
    near = _nearest(name, known)
    return f": did you mean {near!r}?" if near else ""


def suggest_names(name: str, known: Sequence[str]) -> str:
    """Say what to write in place of an unknown name: the nearest one, and all."""
    near = _nearest(name, known)
    listing = ", ".join(known)
    return f"did you mean {near!r}? (known: {listing})" if near else f"write one of {listing}"


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like this one, "" if none is like it. The dashes before a
    flag, which all flags have, make none of them alike."""
    by_word = {one.lstrip("-"): one for one in known}
    near = difflib.get_close_matches(name.lstrip("-"), list(by_word), 1, 0.5)
    return by_word[near[0]] if near else ""
