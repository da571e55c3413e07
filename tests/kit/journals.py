"""Journals of hosts as a transport gives them, whole or in pieces."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from remote.cluster.hosts import Host
from remote.host_commands.journals import Problem, fetch_journals
from remote.plan.plan import Plan
from remote.transport import AgentCommand, Channel, HostCommand, Program, ReachProgress, Unreachable
from tests.kit.stage import Part, Stage
from training.agent import WHOLE
from training.job import Job
from training.wire.jsonl import dumps

END = dumps(WHOLE).encode() + b"\n"


class KeptLine:
    """The line to an errand that says these blocks, and then ends or, where it `stays`, says
    nothing more."""

    def __init__(self, blocks: Iterable[bytes], stays: bool = False, why: str = "") -> None:
        self._blocks, self._why = list(blocks), why
        self.closed = threading.Event()
        if not stays:
            self._blocks.append(b"")

    def read(self) -> bytes:
        if self._blocks:
            return self._blocks.pop(0)
        self.closed.wait(20)
        return b""

    def write(self, data: bytes) -> None:
        raise AssertionError("an errand reads nothing")

    def close(self) -> str:
        self.closed.set()
        return self._why


class Library:
    """A transport to hosts that have these journals."""

    def __init__(self, *kept: KeptLine | Unreachable) -> None:
        self._kept = kept

    def open(self, _: Host, program: Program, progress: ReachProgress) -> KeptLine:
        kept = self._kept[int(program.argv()[2])]
        if isinstance(kept, Unreachable):
            raise kept
        return kept

    @property
    def plan(self) -> Plan:
        return Plan(
            "a-run",
            tuple(Host(f"node{number + 1}", "x", timeout=0.3) for number in range(len(self._kept))),
            Job(),
        )

    def take(self, **offsets: float) -> tuple[list[tuple[int, int]], list[Problem]]:
        """The host and number of each record, and what is missing; `node1=5.0`: its clock is ahead
        by that."""
        problems: list[Problem] = []
        ahead = {int(name.removeprefix("node")) - 1: offset for name, offset in offsets.items()}
        return [
            (one.host, one.seq) for _, one in fetch_journals(self, self.plan, {}, ahead, problems)
        ], problems


class Hosts(Stage):
    """Acted hosts whose journals can be read as well. The journals of those that are `mute` never
    come; `asked`: one was to."""

    mute: frozenset[int] = frozenset()

    def __init__(self, *parts: Part | Exception) -> None:
        super().__init__(*parts)
        self.asked = threading.Event()

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:  # type: ignore[override]
        if isinstance(program, AgentCommand):
            return super().open(host, program, progress)
        assert isinstance(program, HostCommand)
        verb, _, index, after = program.words
        assert verb == "journal"
        if int(index) in self.mute:
            self.asked.set()
            return KeptLine([], stays=True)
        return KeptLine([*self.journals[int(index)][int(after) :], END])
