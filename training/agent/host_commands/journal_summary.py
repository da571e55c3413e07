"""What the ends of a host's journal tell of a run; what stands in the middle of a long one is
skipped, but for how ranks began and ended."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from training.agent.journal import JournalReader, list_segments
from training.wire.enums import EndReason, Phase
from training.wire.events import (
    AgentEnded,
    Entered,
    Evaluated,
    Event,
    Exited,
    Hello,
    Launched,
    OutputText,
    Record,
    Started,
    StepFinished,
    StopHeard,
    decode,
    expand,
)
from training.wire.host_replies import STILL

HEAD = 64 << 10
TAIL = 128 << 10
"""Bytes at the beginning and at the end of a journal of which every record is looked at."""
_STOPPED = (EndReason.OPERATOR_GONE, EndReason.LEASE_EXPIRED)
_WEIGHTY = re.compile(rb'"event":"(?:hello|launched|spawned|exited|stopheard|ended)"')


def read_ends(folder: str, host: int) -> Iterator[Record]:
    """The journal's first records, the weighty ones of its last two segments, and all of its last
    stretch."""
    starts = list_segments(folder)
    if not starts:
        return
    for block in islice(JournalReader(folder, host, 0).blocks(), 1):
        yield from _records(block[:HEAD].splitlines())
    held = b""
    for block in JournalReader(folder, host, starts[-2:][0] - 1).blocks():
        held += block
        cut = held.rfind(b"\n", 0, len(held) - TAIL) + 1 if len(held) > TAIL else 0
        yield from find_important_records(held[:cut])
        held = held[cut:]
    yield from _records(held.splitlines())


def find_important_records(block: bytes) -> Iterator[Record]:
    """Those records of some whole lines that tell how agent and ranks began and ended. In a rank's
    text quotes are escaped."""
    for found in _WEIGHTY.finditer(block):
        yield from _records(
            [block[block.rfind(b"\n", 0, found.start()) + 1 : block.index(b"\n", found.end())]]
        )


def _records(lines: list[bytes]) -> Iterator[Record]:
    yield from filter(None, map(decode, lines))


@dataclass
class JournalSummary:
    """What the records of a host tell, the newest attempt's above all. `stop_heard` is when the
    host first heard that a person stops the run, `failed` when its first rank failed; 0: never."""

    began: float = 0.0
    last: float = 0.0
    boot_id: str = ""
    hostname: str = ""
    phase: str = "waiting"
    ranks: tuple[int, ...] = ()
    exits: dict[int, Exited] = field(default_factory=dict)
    step: int = 0
    steps: int = 0
    ended: AgentEnded | None = None
    attempt: int = 0
    stop_heard: float = 0.0
    failed: float = 0.0

    def hear(self, record: Record) -> None:
        """Take the next record."""
        self.began, self.last = self.began or record.time, max(self.last, record.time)
        match record.event:
            case Hello(boot_id=boot_id, hostname=hostname):
                self.boot_id = boot_id
                self.hostname = hostname
            case Launched(ranks):
                self.ranks = ranks
                self.phase = "starting"
                self.exits.clear()
                self._begin(record.attempt)
            case Exited(rank):
                self.exits[rank] = record.event
                if _is_failure(record.event):
                    self.failed = self.failed or record.time
            case StopHeard(by_person=True):
                self.stop_heard = self.stop_heard or record.time
            case AgentEnded():
                self.ended = record.event
            case OutputText():
                for said in expand(record):
                    self._hear_rank(said.event)

    def _begin(self, attempt: int) -> None:
        """Forget how another attempt ended. A stop may come before the start of its attempt. Of a
        short journal all records come twice, as its first and its last ones."""
        if attempt != self.attempt:
            self.attempt = attempt
            self.stop_heard = 0.0
            self.failed = 0.0

    def _hear_rank(self, event: Event) -> None:
        match event:
            case Entered(phase=phase):
                self.phase = phase
            case Started(steps=steps):
                self.steps = steps
            case StepFinished(step=step):
                self.step = max(self.step, step)
                self.phase = Phase.TRAINING
            case Evaluated(step=step):
                self.step = max(self.step, step)

    @property
    def here(self) -> bool:
        """Whether it is this machine that tells."""
        return self.boot_id in ("", own_boot_id()) or self.hostname == socket.gethostname()

    def perhaps_elsewhere(self, now: float) -> bool:
        """Whether another machine, whose locks may not reach here, shares this folder and may still
        be at work in it."""
        return not self.here and not self.ended and now - self.last < STILL

    def doing(self) -> str:
        """What the ranks of a live run do; once all have exited, what became of them."""
        return self._fate() if self.ranks and len(self.exits) == len(self.ranks) else self.phase

    def verdict(self) -> str:
        """What became of the run on this host, which has ended."""
        if not self.ended or self.ended.died:
            return "lost"
        fate = self._fate()
        return "stopped" if self.ended.reason in _STOPPED and fate != "failed" else fate

    def _fate(self) -> str:
        exits = self.exits.values()
        if any(map(_is_failure, exits)):
            return "failed"
        if any(exit.stopped for exit in exits):
            return "stopped"
        return "finished" if exits else "not started"


def _is_failure(exit: Exited) -> bool:
    return exit.code != 0 and not exit.stopped


def own_boot_id() -> str:
    """What `Hello` tells as the boot id of this machine."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return socket.gethostname()
