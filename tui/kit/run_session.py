"""What the dashboard needs of a session. Its screens import this, and never the session itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from remote.plan.plan import Plan
from remote.run.run_state import RunState
from training.wire.events import Record


class HostChecks(Protocol):
    """Checks of hosts: those of a run, or those alone."""

    plan: Plan
    state: RunState

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Hold it to read `state`."""

    def batches(self) -> Iterator[list[Record]]:
        """Iterate over the records as they come, already applied to `state`, until the end.

        Only one thread may iterate.
        """

    def stop(self, reason: str = ...) -> None:
        """Ask for the end."""


class LiveScreen:
    """A screen that the dashboard draws whenever its time has come."""

    def tick(self) -> None:
        """Draw what has changed."""
        raise NotImplementedError


class RunSession(HostChecks, Protocol):
    """A run to watch, live or replayed."""

    @property
    def detached(self) -> bool:
        """Return True if the run continues on its hosts without this session."""

    @property
    def cut_off(self) -> bool:
        """Return True if the session detached because no host answered any more."""

    @property
    def keep(self) -> bool:
        """Return True if the run continues when this session is gone."""

    def stop(self, reason: str = ..., *, now: bool = ...) -> None:
        """Ask for the end of the run; `now` kills the ranks without a grace period."""

    def detach(self) -> None:
        """Ask to leave the run, which continues."""

    def ask_stacks(self) -> None:
        """Ask every rank for its stack."""
