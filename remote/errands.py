"""Has errands done on hosts, on all at once, and hears the answers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from remote.deploy import last_line
from remote.hosts import Host
from remote.transport import Errand, Line, Transport, Unreachable
from training.agent import WHOLE
from training.jsonl import load


@dataclass(frozen=True)
class Answer:
    """What came back from a host: `objects` in order, and `error`, why there are none or not all ("" where all is well).
    `moment` is when it answered, by this machine's clock: the middle between the asking and the end of the answer."""

    host: Host
    objects: tuple[dict[str, Any], ...] = ()
    error: str = ""
    moment: float = 0.0


class Silent:
    """Hears nothing of the way to a host."""

    def phase(self, name: str) -> None:
        pass

    def said(self, text: str) -> None:
        pass


Give = Callable[[Line], None]
"""Writes what an errand is to read from its stdin."""


def perform(
    transport: Transport,
    hosts: Sequence[Host],
    errand: Callable[[Host], Errand],
    give: Give | None = None,
    patience: Callable[[Host], float] = lambda _: math.inf,
) -> list[Answer]:
    """Have each host's errand done, all at once; the answers, in the order of the hosts.

    `patience`: for how many seconds a host that has been reached may say nothing before it is given up.
    """
    answers: SimpleQueue[tuple[int, Answer]] = SimpleQueue()

    def work(index: int, host: Host) -> None:
        try:
            answers.put((index, _perform(transport, host, errand(host), give, patience(host))))
        except BaseException as error:
            answers.put((index, Answer(host, error=f"{host.name}: {error!r}")))
            raise

    for index, host in enumerate(hosts):  # not waited for when somebody presses Ctrl-C
        threading.Thread(target=work, args=(index, host), name="errand", daemon=True).start()
    return [answer for _, answer in sorted((answers.get() for _ in hosts), key=lambda pair: pair[0])]


def _perform(transport: Transport, host: Host, errand: Errand, give: Give | None, patience: float) -> Answer:
    try:
        line = transport.open(host, errand, Silent())
    except Unreachable as error:
        return Answer(host, error=str(error))
    asked = time.time()
    try:
        if give:
            give(line)
        lines = b"".join(read(line, patience)).splitlines()
        moment = (asked + time.time()) / 2
    except TimeoutError:
        return Answer(
            host, error=f"{host.name}: no answer within {patience:g} s; if it is only slow, raise timeout in hosts.toml"
        )
    except OSError as error:
        return Answer(host, error=f"{host.name}: the line broke: {error}")
    finally:
        said = line.close()
    objects = [found for found in map(load, lines) if found is not None]
    errors = [str(found["error"]) for found in objects if "error" in found]
    if not errors and WHOLE not in objects:
        errors = [f"{host.name}: {last_line(said) or 'its answer broke off'}"]
    answered = tuple(found for found in objects if found != WHOLE and "error" not in found)
    return Answer(host, answered, "; ".join(errors), moment)


def read(line: Line, patience: float) -> Iterator[bytes]:
    """What comes, up to the end of the line. Raises: TimeoutError, where nothing comes for so long."""
    while True:
        late = threading.Event()
        timer = threading.Timer(min(patience, threading.TIMEOUT_MAX), _give_up, (line, late))
        timer.daemon = True
        timer.start()
        block = line.read()
        timer.cancel()
        if late.is_set():
            raise TimeoutError
        if not block:
            return
        yield block


def _give_up(line: Line, late: threading.Event) -> None:
    late.set()
    line.close()
