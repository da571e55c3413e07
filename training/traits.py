"""The traits of a sync method: what the rest of the program must know of it without importing it.

A module declares the traits that differ from the defaults of `Traits`, as a literal at its top
level:

    TRAITS = {"exact": False}

A trait that depends on options names them and their values: `{"exact": {"mode": "sync"}}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from training import registry


@dataclass(frozen=True)
class Traits:
    """The traits of a sync method with given options."""

    exact: bool = True
    """All ranks hold the same model after every step."""
    settles: bool = True
    """`settle` leaves one model on all ranks. Otherwise each rank keeps its own, and the one of the
    first training rank is tested and saved."""
    own_optimizer: bool = False
    """Each rank's optimiser follows gradients that only this rank has."""
    stale: bool = False
    """A gradient may belong to older parameters than those it changes; ranks do not wait for each
    other."""
    dedicated_server: bool = False
    """The rank that the option `server` names holds the parameters and takes no samples."""
    server: int = -1
    """The rank that the option `server` names; -1 where there is no such option."""

    def trains(self, rank: int) -> bool:
        """Return True if a rank takes samples."""
        return not (self.dedicated_server and rank == self.server)


def read_traits(method: str, options: SimpleNamespace) -> Traits:
    """Return the traits of a sync method with these values of its options. Raises:
    registry.UnknownName."""
    held_traits = {
        name: _trait_holds(value, options) for name, value in _read_declared(method).items()
    }
    return Traits(**held_traits, server=getattr(options, "server", -1))


@cache
def _read_declared(method: str) -> dict[str, Any]:
    declared_traits: dict[str, Any] = registry.read_constant("sync", method, "TRAITS", {})
    return declared_traits


def _trait_holds(trait: bool | dict[str, Any], options: SimpleNamespace) -> bool:
    """Return True if a trait, as it is declared, holds with these options."""
    if isinstance(trait, bool):
        return trait
    return all(getattr(options, name) == value for name, value in trait.items())
