"""Has errands done on hosts, on all at once, and hears the answers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from remote.cluster.hosts import Host
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.transport import Errand, Line, Transport, Unreachable
from remote.transport.deploy import last_line
from remote.transport.line_cutter import LineCutter, LineTooLong
from training.agent import WHOLE
from training.wire.jsonl import load, most_values


@dataclass(frozen=True)
class Answer:
    """What came back from a host: `objects` in order, and `error`, why there are none or not all
    ("" where all is well). `moment` is when the first of it came, by this machine's clock: a time
    that it tells was taken just before."""

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
    limits: Limits = LIMITS,
) -> list[Answer]:
    """Have each host's errand done, all at once; the answers, in the order of the hosts.

    `patience`: for how many seconds a host that has been reached may say nothing before it is given
    up. What goes beyond the `limits` is that host's error.
    """
    answers: SimpleQueue[tuple[int, Answer]] = SimpleQueue()

    def work(index: int, host: Host) -> None:
        try:
            answer = _perform(transport, host, errand(host), give, patience(host), limits)
        except Exception as error:  # noqa: BLE001 - a mistake of ours: told, as else this host would be waited for for ever
            answer = Answer(host, error=f"{host.name}: rankboard itself failed: {error!r}")
        answers.put((index, answer))

    for index, host in enumerate(hosts):  # not waited for when somebody presses Ctrl-C
        threading.Thread(target=work, args=(index, host), name="errand", daemon=True).start()
    return [
        answer for _, answer in sorted((answers.get() for _ in hosts), key=lambda pair: pair[0])
    ]


def _perform(
    transport: Transport,
    host: Host,
    errand: Errand,
    give: Give | None,
    patience: float,
    limits: Limits,
) -> Answer:
    try:
        line = transport.open(host, errand, Silent())
    except Unreachable as error:
        return Answer(host, error=str(error))
    taken = _Taken(limits)
    try:
        if give:
            give(line)
        for block in read(line, patience, patience * limits.patience):
            taken.take(block)
    except TimeoutError as error:
        return Answer(
            host, error=f"{host.name}: {error}; if it is only slow, raise timeout in hosts.toml"
        )
    except (AnswerTooLong, LineTooLong) as error:
        return Answer(host, error=f"{host.name}: {error}")
    except OSError as error:
        return Answer(host, error=f"{host.name}: the connection broke: {error}")
    finally:
        said = line.close()
    errors = [str(found["error"])[: limits.shown] for found in taken.objects if "error" in found]
    if len(errors) > limits.errors:
        errors[limits.errors :] = [f"and {len(errors) - limits.errors} more errors"]
    if not errors and WHOLE not in taken.objects:
        errors = [f"{host.name}: {last_line(said) or 'its answer broke off'}"]
    answered = tuple(found for found in taken.objects if found != WHOLE and "error" not in found)
    return Answer(host, answered, "; ".join(errors), taken.moment)


class AnswerTooLong(Exception):
    """A host has answered more than the limits allow. The text says so, and fits behind the host's
    name."""


@dataclass
class _Taken:
    """What has come of an answer."""

    limits: Limits
    objects: list[dict[str, Any]] = field(default_factory=list)
    moment: float = 0.0
    size: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        self._cutter = LineCutter(self.limits.line)

    def take(self, block: bytes) -> None:
        """Take in the next bytes. Raises: AnswerTooLong, LineTooLong."""
        self.moment = self.moment or time.time()
        self.size += len(block)
        if self.size > self.limits.answer:
            raise AnswerTooLong(f"its answer is longer than {size(self.limits.answer)}")
        for line in self._cutter.feed(block):
            self.values += most_values(line)
            if self.values > self.limits.values:
                raise AnswerTooLong(f"its answer has more than {self.limits.values:,} values")
            # to find out that a line is no JSON takes some microseconds, and there may be a million
            # of them
            if line.lstrip().startswith(b"{") and (found := load(line)) is not None:
                self.objects.append(found)


def read(line: Line, patience: float, in_all: float = math.inf) -> Iterator[bytes]:
    """What comes, up to the end of the line. Raises: TimeoutError, where nothing comes for
    `patience` seconds, or the end does not within `in_all` seconds. While nobody asks for more,
    patience does not wear out."""
    watch = _Watch(line, patience, in_all)
    try:
        while block := watch.wait():
            yield block
    finally:
        watch.over.set()


class _Watch:
    """Closes a line over which nothing comes any more; a thread of its own looks at the time."""

    def __init__(self, line: Line, patience: float, in_all: float) -> None:
        self._line, self._patience, self._in_all = line, patience, in_all
        self._end = time.monotonic() + in_all
        self._due = math.inf
        self._late = ""
        self.over = threading.Event()
        if patience < math.inf:
            threading.Thread(target=self._look, name="patience", daemon=True).start()

    def wait(self) -> bytes:
        """The next bytes; none at the end. Raises: TimeoutError."""
        self._due = time.monotonic() + self._patience
        block = self._line.read()
        self._due = math.inf
        if self._late:
            raise TimeoutError(self._late)
        return block

    def _look(self) -> None:
        pause = min(
            self._patience, threading.TIMEOUT_MAX
        )  # a due that comes later is not earlier than the next look
        while not self.over.wait(
            max(0.0, min(self._due - time.monotonic(), self._end - time.monotonic(), pause))
        ):
            now = time.monotonic()
            if now >= self._due:
                self._late = f"no answer within {self._patience:g} s"
            elif now >= self._end:
                self._late = f"no end of its answer within {self._in_all:g} s"
            if self._late:
                self._line.close()
                return
