"""Acting out a plan: a mailbox around the controller.

Threads move bytes; whoever iterates `batches` takes a message, has the controller record it and
decide, and acts. Nothing is decided or drawn here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING

from remote.events import RemarkMade
from remote.fair_lock import FairLock
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.record.snapshots import RunMoment
from remote.record.write import Recorder
from remote.run.output.script_readings import Expand
from remote.run.state.launcher_state import FETCH, UPLOAD
from remote.session import user_requests, watchdog
from remote.session.actions import Action, Fetch, Open, Release, Send, StopTransfers, Upload
from remote.session.connection import Arrived, Asked, Heard, Message
from remote.session.controller import Controller
from remote.session.decide import Rule
from remote.session.pool import Pool
from remote.session.times import TIMES, Times
from remote.transport import Transport
from training.wire.commands import Lease
from training.wire.events import SESSION, Record

if TYPE_CHECKING:
    from remote.session.notify import Notifier, Observer
    from remote.upload.files import FileTransfers

BATCH = 1 << 14
"""Bytes of journals after which a batch takes no more, so that `lock` is never held for long."""


class Session:
    """One live run. `state` is written only while `lock` is held, by the thread that iterates
    `batches`. Before that, `notifier` may be set: it tells that the run stalls or has ended."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        recorder: Recorder,
        cwd: str = "",
        forwarded: Mapping[str, str] = MappingProxyType({}),
        *,
        times: Times = TIMES,
        limits: Limits = LIMITS,
        past: RunMoment | None = None,
    ) -> None:
        """`cwd`: where the ranks work; else where the plan says. `forwarded`: variables for the
        ranks, see `remote.plan.environment`. `past`: what is known of a run to return to."""
        self.plan = plan
        self.lock = FairLock()
        self._transport = transport
        self._recorder = recorder
        self._times = times
        self._controller = Controller(plan, recorder, forwarded, times, limits, past)
        self.state = self._controller.state
        self._queue: SimpleQueue[tuple[float, Message]] = SimpleQueue()
        self._pool = Pool(transport, self._controller, self._put, self._now, cwd, limits)
        self._returns = False
        self._taken_until = 0.0
        self.notifier: Notifier | None = None
        self._observer: Observer | None = None
        self._clock_offset = time.time() - time.monotonic()
        self._over = threading.Event()

    # What others may ask, from any thread or signal handler ---------------------------------------

    def stop(self, stop_reason: str = "stopped by the user", *, now: bool = False) -> None:
        """Ask for the end of the run; return at once. `now`: without the time that ranks have to
        end by themselves."""
        self._ask(partial(user_requests.stop, stop_reason=stop_reason, now=now))

    def detach(self) -> None:
        """Ask to leave the run to its agents, which go on with it, once the ranks run; return at
        once."""
        self._ask(user_requests.detach)

    def ask_stacks(self) -> None:
        """Ask where each rank is, which its host then reports; return at once."""
        self._ask(watchdog.ask_stacks)

    @property
    def is_under_way(self) -> bool:
        """See `Controller.is_under_way`."""
        return self._controller.is_under_way

    @property
    def detached(self) -> bool:
        """Return True if the run was left to its agents."""
        return self.state.launcher.detached

    @property
    def cut_off(self) -> bool:
        """Return True if the run was left to its agents as none of them was heard any more, or it
        could not be restarted here."""
        return self.state.launcher.cut_off

    @property
    def keep(self) -> bool:
        """Return True if the agents go on with the run when this session is gone."""
        return self.state.launcher.keep

    @property
    def is_closing(self) -> bool:
        """Return True if the session only closes its connections and its record."""
        return self._controller.is_over

    @property
    def has_ended(self) -> bool:
        """Return True if nothing of the run is left to be ended."""
        return self.state.is_settled

    # ----------------------------------------------------------------------------------------------

    @property
    def expand(self) -> Expand:
        """Return what takes the run's records apart."""
        return self._controller.ledger.expand

    def catch_up(self, past_records: Iterable[Record]) -> None:
        """Return to a run: take in what of it is recorded here behind its `past`, expanded by
        `expand`. To be called before `batches`."""
        self._returns = True
        self._controller.recall(past_records)

    def batches(self) -> Iterator[list[Record]]:
        """Yield the run's records, expanded, in order of arrival, already recorded and applied to
        `state`, until the run ends.

        To be iterated once, by one thread. Leaving it early closes the connections, and the agents'
        policy decides what follows.
        """
        yield from self._recalled()
        if self.has_ended:  # and that is recorded
            self._recorder.leave(self.state, self.expand)
            return
        if self.notifier:
            self._observer = self.notifier.observe(self.state, self._recorder.folder)
        lease_thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        lease_thread.start()
        try:
            with self.lock:
                if self._returns:
                    self._controller.attach(self._now())
                else:
                    self._controller.begin(self._now())
                self._settle()
            while not self._controller.is_over:
                self._notify()
                yield self._turn()
            yield self._taken()
        finally:
            # In this order: the record is complete before the last notification, and leases go on
            # until the connections have closed, since an agent that hears none would stop its
            # ranks.
            self._pool.close_all()
            self._recorder.close(self.state, self.expand)
            self._notify()
            self._pool.wait()
            self._over.set()
            lease_thread.join()

    def _recalled(self) -> Iterator[list[Record]]:
        """Yield what is to be taken in before the hosts are reached."""
        yield from ()

    def _now(self) -> float:
        """Return the time by the session's clock: the wall clock's at its start, which no step of
        it changes."""
        return time.monotonic() + self._clock_offset

    def _ask(self, rule: Rule) -> None:
        self._put(Asked(lambda: self._carry_out(self._controller.follow(rule, self._now()))))

    def _put(self, message: Message) -> None:
        self._queue.put((self._now(), message))

    def _renew(self) -> None:
        """Send signs of life, from a thread of its own: who iterates `batches` may be held up, as
        by a pager, and is there still."""
        while not self._over.wait(self._times.lease):
            for connection in self._pool.in_use():
                connection.send(Lease())

    def _notify(self) -> None:
        """Report what is new of the run. If that failed, the record says so."""
        if not self._observer:
            return
        self._observer.look(self.state)
        notify_failure = "" if self._controller.is_over else self._observer.failure()
        if notify_failure:
            self._put(Heard(RemarkMade(SESSION, notify_failure)))

    # The mailbox ----------------------------------------------------------------------------------

    def _turn(self) -> list[Record]:
        """Take one batch: what has arrived, or nothing if the next look at the clock comes
        first."""
        messages: list[tuple[float, Message]] = []
        with suppress(Empty):
            messages.append(self._queue.get(timeout=self._times.tick))
            batch_size = _size(messages[0][1])
            while batch_size < BATCH:
                messages.append(self._queue.get_nowait())
                batch_size += _size(messages[-1][1])
        with self.lock:
            if messages:
                self._pool.observe(behind=self._now() - messages[0][0])
            for came_at, message in messages:
                self._taken_until = came_at
                self._take(message)
            self._settle()
            write_problem = self._recorder.flush()
            self._recorder.update_overview(self.state)
            self._recorder.keep_snapshot(self.state, self.expand)
            if write_problem:
                self._controller.take_event(RemarkMade(SESSION, write_problem), self._now())
        return self._taken()

    def _taken(self) -> list[Record]:
        return self._controller.ledger.take_batch()

    def _take(self, message: Message) -> None:
        match message:
            case Heard(event):
                self._controller.take_event(event, self._now())
            case Asked(act):
                act()
            case _:
                self._pool.take(message)

    # Acting ---------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Have the controller decide, and act."""
        now = self._now()
        self._pool.observe(behind=0.0 if self._queue.empty() else now - self._taken_until)
        self._carry_out(self._controller.settle(now))
        for host, link in zip(self.state.hosts, self._controller.links, strict=True):
            # What still runs on a host that was left out is ended once it is back.
            is_awaited = host.left_out and not host.ended
            if link.released or (host.done and not is_awaited):
                self._pool.close(host.index)

    def _carry_out(self, chosen_actions: Iterable[Action]) -> None:
        for action in chosen_actions:
            match action:
                case Send(host_index, command):
                    self._pool.send(host_index, command)
                case Open(host_index):
                    self._pool.open(host_index)
                case Release(host_index):
                    self._pool.close(host_index)
                case Upload():
                    self._transfer(UPLOAD, self._files.upload)
                case Fetch(host_indices):
                    self._transfer(FETCH, partial(self._fetch, host_indices))
                case StopTransfers():
                    self._files.stop()

    # Files ----------------------------------------------------------------------------------------

    @cached_property
    def _files(self) -> FileTransfers:
        from remote.upload.files import FileTransfers  # most runs have no files to move

        return FileTransfers(
            self.plan,
            self._transport,
            lambda host_index, problem_text: self._put(Heard(RemarkMade(host_index, problem_text))),
        )

    def _transfer(self, transfer_kind: str, move_files: Callable[[], dict[int, str]]) -> None:
        """Move files in a thread of its own. `move_files` returns what went wrong, by host."""

        def transfer_files() -> None:
            problems = move_files()
            self._put(
                Asked(lambda: self._controller.take_transfer(transfer_kind, problems, self._now()))
            )

        threading.Thread(target=transfer_files, name="files", daemon=True).start()

    def _fetch(self, host_indices: Sequence[int]) -> dict[int, str]:
        """Bring results from these hosts. Return what went wrong, by host."""
        from remote.upload.results import expected_sizes

        job = self.plan.job
        # About how many bytes each host has, as far as is known.
        expected_bytes = expected_sizes(job, self.state.ranks) if job else {}
        run_age = self._now() - self.state.started
        return self._files.fetch(self._recorder.folder, host_indices, expected_bytes, run_age)


def _size(message: Message) -> int:
    """Return how much of a batch a message takes: at least 1, so that a batch has a bounded number
    of them."""
    return max(1, len(message.data)) if isinstance(message, Arrived) else 1
