"""Keeping up the wires to the hosts: one that breaks or falls silent is followed by another, a host
that stays away is lost."""

from __future__ import annotations

import time
from collections.abc import Callable

from remote.session.connection import Link, Wire
from remote.transport import Transport
from training.wire.enums import Reach
from training.wire.events import Event, Parted, Reaching, Said, Silent

SILENT = 10.0
"""Seconds without a record until a host counts as silent; a live agent samples its host each
second."""
LOST = 60.0
"""Seconds without a record until a host counts as lost."""
PARTED = 10.0
"""Seconds in which a line that broke must be opened again; the agent of a run that is to stop has
stopped it by then."""
RETRY = 1.0
"""Seconds from a wire that could not be opened to the next try."""


class Upkeep:
    """Takes in what becomes of wires. What there is to tell goes to `say`, a host that is lost, and
    why, to `lose`."""

    def __init__(
        self, transport: Transport, say: Callable[[Event], None], lose: Callable[[Link, str], None]
    ) -> None:
        self._transport, self._say, self._lose = transport, say, lose

    def opened(self, wire: Wire) -> None:
        """A wire is there: it is the link's from now on."""
        wire.link.take(wire)
        if wire.link.hello and not wire.link.done:
            self._say(Reaching(wire.link.index, Reach.READY))

    def broken(self, wire: Wire, reason: str) -> None:
        """A wire has ended. Where an agent is there, or may be, another one is opened; else the
        host is lost."""
        link = wire.link
        if link.done:
            if wire is link.opening:
                link.opening = None
            return
        if wire is link.opening:
            link.opening, link.retry_at = None, time.monotonic() + RETRY
            link.tried_at = link.tried_at or time.monotonic()
            if not link.hello:
                self._miss(link, reason)
        elif wire is link.wire:
            link.part(wire)
            if not link.hello or not link.comes_back:
                self._miss(link, reason)
            elif wire.fed:
                link.parted_at = time.monotonic()
                self._say(Parted(link.index, reason))
                if not link.opening:
                    link.reach(self._transport)
            else:  # nothing came over it: it was no way either
                link.retry_at = time.monotonic() + RETRY

    def _miss(self, link: Link, reason: str) -> None:
        """No agent is heard there. One that a run is come back to may do well, though no way leads
        there from here."""
        if not link.comes_back:
            self._lose(link, reason)
        elif not link.problem:
            link.problem = reason
            self._say(Said(link.index, f"{reason}; trying again, the others go on"))

    def look_after(self, link: Link, now: float, *, keep: bool) -> None:
        """Open another wire beside one that has fallen silent, or in place of one that broke."""
        quiet = now - link.heard
        if link.done:
            if link.left_out and not link.opening and now >= link.retry_at:
                link.retry_at = now + SILENT
                link.reach(self._transport)
            return
        if not link.hello and not link.problem:
            if link.wire and now - max(link.heard, link.spared) >= LOST:
                self._lose(
                    link,
                    f"{link.host.name}: its Python has started and said nothing for {quiet:.0f} s",
                )
            return
        if link.problem:
            if not link.opening and now >= link.retry_at:
                link.retry_at = now + SILENT
                link.reach(self._transport)
            return
        if now - max(link.heard, link.spared) >= LOST:
            self._lose(link, f"{link.host.name}: no sign of life for {quiet:.0f} s")
        elif link.wire is None and not keep and now - link.parted_at >= PARTED:
            self._lose(
                link,
                f"{link.host.name}: the connection broke, and no new one could be made for "
                f"{PARTED:g} s",
            )
        elif (
            link.comes_back
            and not link.opening
            and now >= link.retry_at
            and (link.wire is None or quiet >= SILENT)
        ):
            link.retry_at = now + SILENT
            link.reach(self._transport)
        if quiet >= SILENT and not link.silent and not link.done:
            link.silent = True
            self._say(Silent(link.index, quiet))
