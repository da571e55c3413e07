"""Has errands done on hosts, on all at once, and hears the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from remote.hosts import Host
from remote.transport import Errand, Line, Transport, Unreachable
from training.codec import load


@dataclass(frozen=True)
class Answer:
    """What came back from a host: `objects` in order, and `error`, why there are none or not all ("" where all is well)."""

    host: Host
    objects: tuple[dict[str, Any], ...] = ()
    error: str = ""


class _Silent:
    """Hears nothing of the way to a host."""

    def phase(self, name: str) -> None:
        pass

    def said(self, text: str) -> None:
        pass


Give = Callable[[Line], None]
"""Writes what an errand is to read from its stdin."""


def perform(
    transport: Transport, hosts: Sequence[Host], errand: Callable[[Host], Errand], give: Give | None = None
) -> list[Answer]:
    """Have each host's errand done, all at once; the answers, in the order of the hosts."""
    with ThreadPoolExecutor(max(1, len(hosts)), thread_name_prefix="errand") as pool:
        return list(pool.map(lambda host: _perform(transport, host, errand(host), give), hosts))


def _perform(transport: Transport, host: Host, errand: Errand, give: Give | None) -> Answer:
    try:
        line = transport.open(host, errand, _Silent())
    except Unreachable as error:
        return Answer(host, error=str(error))
    try:
        if give:
            give(line)
        lines = b"".join(iter(line.read, b"")).splitlines()
    except OSError as error:
        return Answer(host, error=f"{host.name}: the line broke: {error}")
    finally:
        said = line.close()
    objects = tuple(found for found in map(load, lines) if found is not None)
    errors = [str(found["error"]) for found in objects if "error" in found]
    return Answer(
        host, tuple(found for found in objects if "error" not in found), "; ".join(errors) or ("" if objects else said)
    )
