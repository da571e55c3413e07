"""Mistakes, each planted in real code: the simulator has to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import PropertyMock, patch

from remote.run import launcher_records as launcher_events
from remote.run.diagnosis import verdict
from remote.run.state.launcher_state import LauncherState
from remote.session import finish, pool, reach
from remote.session.controller import Controller
from remote.session.intake import Intake
from remote.session.ledger import Ledger
from remote.session.session import Session
from training.agent import decide, journal
from training.wire.host_events import Exited

Mistake = Callable[[], AbstractContextManager[object]]
FOUND: dict[str, tuple[Mistake, int]] = {}
"""Each mistake by what it is, and the first seed that finds it."""


def _mistake(what: str, seed: int) -> Callable[[Mistake], Mistake]:
    def add(make: Mistake) -> Mistake:
        FOUND[what] = make, seed
        return make

    return add


@_mistake("an agent starts an attempt again", 819)
def _() -> AbstractContextManager[object]:
    real = decide._start_attempt

    def start(state: Any, *rest: Any) -> Any:
        state.attempt = -1
        return real(state, *rest)

    return patch.object(decide, "_start_attempt", start)


@_mistake("an agent kills its ranks without grace", 29)
def _() -> AbstractContextManager[object]:
    real = decide._stop_ranks
    return patch.object(decide, "_stop_ranks", lambda state, now, grace: real(state, now, 0.0))


@_mistake("an agent does not kill ranks that ignore TERM", 25)
def _() -> AbstractContextManager[object]:
    return patch.object(decide, "_kill_in_time", lambda *_: [])


@_mistake("an agent goes on without its launcher", 78)
def _() -> AbstractContextManager[object]:
    return patch.object(decide, "_look_for_operator", lambda *_: [])


@_mistake("an agent ends a kept run without its launcher", 22)
def _() -> AbstractContextManager[object]:
    real = decide._look_for_operator

    def look(state: Any, *rest: Any) -> Any:
        state.keep = False
        return real(state, *rest)

    return patch.object(decide, "_look_for_operator", look)


@_mistake("an agent does not wait for the launcher that is to start its ranks", 8)
def _() -> AbstractContextManager[object]:
    real = decide._look_for_operator

    def look(state: Any, *rest: Any) -> Any:
        attempt, state.attempt = state.attempt, max(0, state.attempt)
        found = real(state, *rest)
        state.attempt = attempt
        return found

    return patch.object(decide, "_look_for_operator", look)


@_mistake("a journal that drops records does not tell again which ranks have ended", 1488)
def _() -> AbstractContextManager[object]:
    return patch.object(journal, "_LASTING", ())


@_mistake("a journal does not tell again what is in a file that somebody renames", 96)
def _() -> AbstractContextManager[object]:
    return patch.object(journal.Journal, "_forget_missing", lambda _: False)


@_mistake("a launcher does not renew its leases", 95)
def _() -> AbstractContextManager[object]:
    return patch.object(Session, "_renew", lambda _: None)


@_mistake("a launcher takes a record in twice", 239)
def _() -> AbstractContextManager[object]:
    real = Intake._take_record

    def take(self: Any, record: Any, line: bytes, arrived_at: float, view: Any) -> str:
        host = view.run.hosts[record.host]
        known, host.seq = host.seq, min(host.seq, record.seq - 1)
        why = real(self, record, line, arrived_at, view)
        host.seq = max(known, host.seq)
        return why

    return patch.object(Intake, "_take_record", take)


@_mistake(
    "a launcher does not wait for the hosts that tell later of another launcher's restart", 15002
)
def _() -> AbstractContextManager[object]:
    return patch.object(Intake, "_must_wait", lambda *_: False)


@_mistake("a launcher asks for one record too late", 0)
def _() -> AbstractContextManager[object]:
    real = pool.AgentCommand

    def agent(*words: Any, after: int, **more: Any) -> Any:
        return real(*words, after=after + (after > 0), **more)

    return patch.object(pool, "AgentCommand", agent)


@_mistake("a launcher does not record what it knows", 0)
def _() -> AbstractContextManager[object]:
    real = Ledger.take

    def take(self: Any, record: Any, line: bytes) -> None:
        real(self, record, b"" if isinstance(record.event, Exited) else line)

    return patch.object(Ledger, "take", take)


@_mistake("a launcher knows what it has not recorded", 7)
def _() -> AbstractContextManager[object]:
    real = Session.stop

    def stop(self: Any, *words: str, now: bool = False) -> None:
        self.state.launcher.final = True
        real(self, *words, now=now)

    return patch.object(Session, "stop", stop)


@_mistake("a stop is not sent again over a new connection", 658)
def _() -> AbstractContextManager[object]:
    real = Controller.take_open

    def take_open(self: Any, on: int, now: float) -> None:
        sent = set(self.links[on].sent)
        real(self, on, now)
        self.links[on].sent |= sent

    return patch.object(Controller, "take_open", take_open)


@_mistake("a restart does not wait for all ranks", 1)
def _() -> AbstractContextManager[object]:
    return patch.object(finish, "_is_idle", lambda *_: True)


@_mistake("restarts are not counted", 20)
def _() -> AbstractContextManager[object]:
    left = PropertyMock(return_value=1)
    return patch.object(LauncherState, "restarts_left", left)


@_mistake("evidence is not waited for", 29)
def _() -> AbstractContextManager[object]:
    real = finish.stop_failed

    def stop_failed(view: Any) -> Any:
        return real(replace(view, times=replace(view.times, evidence=0.0)))

    return _rule("stop_failed", stop_failed)


@_mistake("a host is lost as soon as it is silent", 15)
def _() -> AbstractContextManager[object]:
    return _with_times(lost=11.0)


@_mistake("a silent host is never lost", 25)
def _() -> AbstractContextManager[object]:
    return _with_times(lost=1e6)


@_mistake("each connection to a host that says nothing is a sign of life", 135)
def _() -> AbstractContextManager[object]:
    real = Controller.take_open

    def take_open(self: Any, on: int, now: float) -> None:
        self.links[on].met = False
        real(self, on, now)

    return patch.object(Controller, "take_open", take_open)


@_mistake("a run ends for each launcher when that one closes it", 1)
def _() -> AbstractContextManager[object]:
    return patch.object(launcher_events, "_end_of_run", lambda run: run.now)


@_mistake("a run fails without a cause", 4)
def _() -> AbstractContextManager[object]:
    return patch.object(verdict.Judge, "_explain", lambda *_: None)


@_mistake("a person who stops twice waits", 250)
def _() -> AbstractContextManager[object]:
    real = finish._patience

    def patience(view: Any, link: Any) -> float:
        return max(real(view, link), view.launcher.ending_at + view.times.closing)

    return patch.object(finish, "_patience", patience)


@_mistake("a launcher waits for ever for a host that does not end", 250)
def _() -> AbstractContextManager[object]:
    return patch.object(finish, "_patience", lambda *_: 1e12)


def _rule(name: str, rule: Callable[[Any], Any]) -> AbstractContextManager[object]:
    from remote.session import decide as deciding

    rules = tuple((rule if one.__name__ == name else one, stages) for one, stages in deciding.RULES)
    return patch.object(deciding, "RULES", rules)


@contextmanager
def _with_times(**times: float) -> Iterator[None]:
    real = reach._reach

    def look(view: Any, *rest: Any) -> Any:
        return real(replace(view, times=replace(view.times, **times)), *rest)

    with patch.object(reach, "_reach", look):
        yield
