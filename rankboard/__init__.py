"""Launch and watch data-parallel PyTorch training on several machines.

docs/reference/python.md describes this interface. It drives the command `rankboard` as a process of
its own, so nothing of our code is imported here, and packages of yours may be called `training`,
`remote` or `tui`.
"""

from __future__ import annotations

from importlib import import_module

# The command imports this package, too, and needs none of it: each name is loaded once it is used.
TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

    from rankboard.columns import Columns
    from rankboard.comparison import ComparedRun, Comparison, compare
    from rankboard.errors import (
        CommandError,
        Mistake,
        RankboardError,
        RefusedError,
        WaitTimeout,
    )
    from rankboard.outcome import Cause, Outcome, RunFailedError
    from rankboard.progress import Event, RankProgress
    from rankboard.runs import Run, attach, launch, load

__all__ = [
    "Cause",
    "Columns",
    "CommandError",
    "ComparedRun",
    "Comparison",
    "Event",
    "Mistake",
    "Outcome",
    "RankProgress",
    "RankboardError",
    "RefusedError",
    "Run",
    "RunFailedError",
    "WaitTimeout",
    "attach",
    "compare",
    "launch",
    "load",
]

_MODULES = {
    "columns": ("Columns",),
    "comparison": ("ComparedRun", "Comparison", "compare"),
    "errors": ("CommandError", "Mistake", "RankboardError", "RefusedError", "WaitTimeout"),
    "outcome": ("Cause", "Outcome", "RunFailedError"),
    "progress": ("Event", "RankProgress"),
    "runs": ("Run", "attach", "launch", "load"),
}
"""The names that each module has."""


def __getattr__(name: str) -> Any:
    for module_name, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"rankboard.{module_name}"), name)
    raise AttributeError(f"module 'rankboard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
