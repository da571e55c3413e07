"""What the ends of a host's journal tell of a run; what stands in the middle of a long one is
skipped, but for how ranks began and ended."""

from __future__ import annotations

import re
import socket
import statistics
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from training.agent.journal import JournalReader, list_segments
from training.wire.enums import EndReason, Phase
from training.wire.events import Event, Record, decode, expand
from training.wire.host_events import AgentEnded, Exited, Hello, Launched, OutputText, StopHeard
from training.wire.host_replies import STILL
from training.wire.rank_events import Entered, Evaluated, Started, StepFinished
from training.wire.step_block import StepBlock

HEAD = 64 << 10
TAIL = 128 << 10
"""Bytes at the beginning and at the end of a journal of which every record is looked at."""
RECENT_STEPS = 100
"""Steps of which it is known how long they took."""
_STOPPED = (EndReason.OPERATOR_GONE, EndReason.LEASE_EXPIRED)
_STEPS = b'"event":"steps"'
_WEIGHTY = re.compile(rb'"event":"(?:hello|launched|spawned|exited|stopheard|ended)"')


def read_ends(folder: str, host: int) -> Iterator[Record]:
    """Yield the journal's first records, the important ones of its last two segments, and all of
    its last stretch."""
    segment_starts = list_segments(folder)
    if not segment_starts:
        return
    for block in islice(JournalReader(folder, host, 0).blocks(), 1):
        yield from _decode_lines(block[:HEAD].splitlines())
    pending = b""
    # Two segments: the last one may have just begun, and hold next to nothing.
    for block in JournalReader(folder, host, segment_starts[-2:][0] - 1).blocks():
        pending += block
        cut_at = pending.rfind(b"\n", 0, len(pending) - TAIL) + 1 if len(pending) > TAIL else 0
        yield from find_important_records(pending[:cut_at])
        yield from _find_last_steps(pending[:cut_at])
        pending = pending[cut_at:]
    yield from _decode_lines(pending.splitlines())


def find_important_records(block: bytes) -> Iterator[Record]:
    """Yield the records of some whole lines that say how agent and ranks began and ended.

    In a rank's text quotes are escaped, so it does not match.
    """
    for match in _WEIGHTY.finditer(block):
        line_start = block.rfind(b"\n", 0, match.start()) + 1
        line_end = block.index(b"\n", match.end())
        yield from _decode_lines([block[line_start:line_end]])


def _find_last_steps(block: bytes) -> Iterator[Record]:
    """Yield the last steps in some whole lines. Where ranks hang or their steps take long, samples
    fill what comes after them."""
    found_at = block.rfind(_STEPS)
    if found_at >= 0:
        line_start = block.rfind(b"\n", 0, found_at) + 1
        yield from _decode_lines([block[line_start : block.index(b"\n", found_at)]])


def _decode_lines(lines: list[bytes]) -> Iterator[Record]:
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
    moved: float = 0.0
    """When a rank last made a step, entered a phase or printed something."""
    step_times: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    """The seconds that its newest steps took."""

    @property
    def step_seconds(self) -> float:
        """Return the median of its newest steps; 0 before the first."""
        return statistics.median(self.step_times) if self.step_times else 0.0

    def hear(self, record: Record) -> None:
        """Take in the next record."""
        self.began, self.last = self.began or record.time, max(self.last, record.time)
        match record.event:
            case Hello(boot_id=boot_id, hostname=hostname):
                self.boot_id = boot_id
                self.hostname = hostname
            case Launched(ranks):
                self.ranks = ranks
                self.phase = "importing"
                self.exits.clear()
                self._begin_attempt(record.attempt)
            case Exited(rank):
                self.exits[rank] = record.event
                if _is_failure(record.event):
                    self.failed = self.failed or record.time
            case StopHeard(by_person=True):
                self.stop_heard = self.stop_heard or record.time
            case AgentEnded():
                self.ended = record.event
            case StepBlock() as steps:
                self._hear_step(steps.step)
                self.step_times.extend(steps.unpack().seconds)
                self.moved = record.time
            case OutputText():
                for rank_record in expand(record):
                    self._hear_rank(rank_record.event, record.time)

    def _begin_attempt(self, attempt: int) -> None:
        """Forget how another attempt ended. A stop may come before the start of its attempt. Of a
        short journal all records come twice, as its first and its last ones."""
        if attempt != self.attempt:
            self.attempt = attempt
            self.stop_heard = 0.0
            self.failed = 0.0
            self.step_times.clear()

    def _hear_rank(self, event: Event, when: float) -> None:
        match event:
            case Entered(phase=phase):
                self.phase = phase
                self.moved = when
            case Started(steps=steps):
                self.steps = steps
            case StepFinished(step=step, seconds=seconds):
                self._hear_step(step)
                self.step_times.append(seconds)
                self.moved = when
            case Evaluated(step=step):
                self.step = max(self.step, step)
            case OutputText():
                self.moved = when

    def _hear_step(self, step: int) -> None:
        self.step = max(self.step, step)
        self.phase = Phase.TRAINING

    @property
    def here(self) -> bool:
        """Return True if this machine wrote the journal."""
        return self.boot_id in ("", own_boot_id()) or self.hostname == socket.gethostname()

    def perhaps_elsewhere(self, now: float) -> bool:
        """Return True if another machine, whose locks may not reach here, shares this folder and
        may still be at work in it."""
        return not self.here and not self.ended and now - self.last < STILL

    def doing(self) -> str:
        """Return what the ranks of a live run do; once all have exited, what became of them."""
        return (
            self._describe_exits()
            if self.ranks and len(self.exits) == len(self.ranks)
            else self.phase
        )

    def verdict(self) -> str:
        """Return what became of the run on this host, which has ended."""
        if not self.ended or self.ended.died:
            return "lost"
        outcome = self._describe_exits()
        return "stopped" if self.ended.reason in _STOPPED and outcome != "failed" else outcome

    def _describe_exits(self) -> str:
        rank_exits = self.exits.values()
        if any(map(_is_failure, rank_exits)):
            return "failed"
        if any(exit.stopped for exit in rank_exits):
            return "stopped"
        if rank_exits:
            return "finished"
        # No rank was started: a person stopped the run before that, or it was not fit to start.
        return "stopped" if self.stop_heard else "refused"


def _is_failure(rank_exit: Exited) -> bool:
    return rank_exit.code != 0 and not rank_exit.stopped


def own_boot_id() -> str:
    """Return what `Hello` reports as the boot id of this machine."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return socket.gethostname()
