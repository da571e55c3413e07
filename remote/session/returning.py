"""Returning to a run of which nothing is recorded here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice

from remote.events import HostPhaseChanged, RemarkMade
from remote.host_commands.journals import Problem, fetch_journals
from remote.plan.plan import Plan
from remote.record.write import Recorder
from remote.session.session import Session
from remote.session.times import TIMES, Times
from remote.transport import Transport
from training.wire.enums import Reach
from training.wire.events import SESSION, Record

BATCH = 200
"""Records that are taken in at once, so that `lock` is never held for long."""


class ReturningSession(Session):
    """One that returns to a run of which nothing is recorded here. First it takes in what all hosts
    have, in order of time: an attempt is then met before those that followed it, also on hosts that
    these left out."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        recorder: Recorder,
        cwd: str,
        forwarded: Mapping[str, str],
        offsets: Mapping[int, float],
        *,
        times: Times = TIMES,
    ) -> None:
        """`offsets`: how many seconds the hosts' clocks are ahead, by the number of the host, as
        far as is known."""
        super().__init__(plan, transport, recorder, cwd, forwarded, times=times)
        self._offsets = offsets
        self._refused: set[int] = set()
        self.catch_up(())

    def _recalled(self) -> Iterator[list[Record]]:
        """Yield what the hosts have. If somebody asks for something meanwhile, the rest comes over
        the connections."""
        controller = self._controller
        with self.lock:
            for host_index, clock_offset in self._offsets.items():
                controller.set_clock(host_index, clock_offset, self._now())
            for host in self.state.hosts:  # so that a wait for it begins now, not with the run
                controller.take_event(HostPhaseChanged(host.index, Reach.CONNECTING), self._now())
        yield self._taken()
        journal_problems: list[Problem] = []
        journals = fetch_journals(
            self._transport, self.plan, {}, self._offsets, journal_problems, self._queue.empty
        )
        with closing(journals):
            while batch := list(islice(journals, BATCH)):
                with self.lock:
                    self._bring(batch)
                yield self._taken()
        with self.lock:
            for host_index, problem_text in journal_problems:
                controller.take_event(RemarkMade(host_index, problem_text), self._now())

    def _bring(self, journal_batch: Sequence[tuple[bytes, Record]]) -> None:
        """Record these, and take them in."""
        for line, record in journal_batch:
            if record.host in self._refused:
                continue
            if not self._controller.take_journal(record, line, self._now()):
                # It comes again over its connection, and the host is lost then.
                self._refused.add(record.host)
        write_problem = self._recorder.flush()
        if write_problem:
            self._controller.take_event(RemarkMade(SESSION, write_problem), self._now())
