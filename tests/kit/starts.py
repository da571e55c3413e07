"""Histories of runs that start: hosts that are reached, and ranks on their way."""

from __future__ import annotations

from remote.events import HostPhaseChanged
from remote.run.state.phases import START_PHASES
from tests.kit.histories import History, plan
from training.wire.events import Event
from training.wire.host_events import Hello, Reserved, Spawned
from training.wire.rank_events import Entered, Started

HELLO = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30, "2.14.1")
WORK = tuple(phase.value for phase in START_PHASES[1:])


def started(rank: int, size: int = 4) -> Event:
    return Started(rank, 100 + rank, size, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100)


def reached(
    hosts: int = 4, slots: int = 1, behind: dict[int, str] | None = None, transport: str = "ssh"
) -> History:
    """Every host is ready but those that are behind, in their phases."""
    history = History(plan(hosts, slots, transport=transport))
    for index in range(hosts):
        history.session(HostPhaseChanged(index, "connecting" if transport == "ssh" else "starting"))
        if phase := (behind or {}).get(index):
            history.session(HostPhaseChanged(index, phase))
        else:
            history.say(index, HELLO).session(HostPhaseChanged(index, "ready"))
    return history


def going(
    phases: dict[int, str], hosts: int = 4, slots: int = 1, transport: str = "ssh"
) -> History:
    """The port is reserved, and every rank has come to its phase; those that are not named
    train."""
    history = reached(hosts, slots, transport=transport).say(
        0, Reserved("10.10.1.1", 29500), after=0.1
    )
    for slot in history.plan.slots:
        phase = phases.get(slot.rank, "training")
        history.rank(slot.rank, history.launched(slot.rank), Spawned(slot.rank, 100 + slot.rank))
        passed = WORK[1 : WORK.index(phase) + 1] if phase in WORK else WORK[1:]
        history.rank(slot.rank, *(Entered(slot.rank, each) for each in passed))
        if phase == "training":
            history.rank(slot.rank, started(slot.rank, history.plan.world_size))
    return history
