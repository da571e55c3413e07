"""Histories of users' own programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from remote.plan.plan import Plan, Script
from tests.kit.histories import History, plan, said
from training.wire.events import PREFIX, to_object
from training.wire.host_events import Exited, OutputText, Spawned
from training.wire.jsonl import dumps
from training.wire.rank_events import StepFinished


def script(hosts: int = 2, slots: int = 2, *, watch: bool = False) -> Plan:
    """A plan of ranks that are a user's own program."""
    return replace(plan(hosts, slots), work=Script(("train.py",), watch=watch))


def started(of: Plan) -> History:
    """Its ranks run."""
    history = History(of)
    for slot in of.slots:
        history.rank(slot.rank, history.launched(slot.rank), Spawned(slot.rank, 100 + slot.rank))
    return history


def line(step: int, loss: float, **more: float) -> str:
    """What a rank prints after a step."""
    rest = "".join(f" {name}={value}" for name, value in more.items())
    return f"step={step} loss={loss}{rest}"


def logging(history: History, rank: int, numbers: Iterable[int], after: float) -> History:
    """A rank prints a line for each of these steps."""
    host = history.plan.slots[rank].host
    for step in numbers:
        text = line(step, 100.0 / step, grad_norm=step / 4, val_loss=1.0)
        history.say(host, said(rank, text, "stdout"), after=after)
    return history


def seen(
    rank: int, step: int, loss: float = float("nan"), time: float = 1.0, **more: float
) -> OutputText:
    """A step that the watch tells, made at this time."""
    event = StepFinished(rank, 0, step, loss, 0.5, **more)  # type: ignore[arg-type]
    return OutputText(rank, "stdout", PREFIX + dumps({"time": time} | to_object(event)))


def ended(history: History) -> History:
    """All ranks end well."""
    for slot in history.plan.slots:
        history.rank(slot.rank, Exited(slot.rank, 0))
    return history
