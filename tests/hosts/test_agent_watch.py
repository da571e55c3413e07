"""Watching a user's own program: what the agent hands on of it, and of whom."""

from __future__ import annotations

import sys

from tests.kit.agents import Host
from training.wire.commands import Placement
from training.wire.events import Step, Text, expand

STEPS = """
import torch
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(4):
    (weight.sum() * (step + 1)).backward()
    optimizer.step()
"""
WATCHED = {"RANKBOARD_WATCH": "1", "RANK": "3"}


def steps(host: Host, code: str, argv: tuple[str, ...] = (), **env: str) -> list[Step]:
    """What is seen of a program."""
    follower = host.follow()
    placement = Placement(
        3, 0, argv or (sys.executable, "-c", code), tuple({**WATCHED, **env}.items())
    )
    follower.start(placement)
    assert follower.exits(1)[3].code == 0, follower.text(3, "stderr")
    records = follower.close()
    found = [event for record in records for event in (one.event for one in expand(record))]
    texts = [event.text for event in found if isinstance(event, Text) and event.rank == 3]
    assert not any("rankboard" in text for text in texts), texts
    return [event for event in found if isinstance(event, Step)]


def test_each_step_is_told_with_its_loss_and_nothing_is_printed(host: Host) -> None:
    found = steps(host, STEPS)
    assert [(step.rank, step.step, step.epoch) for step in found] == [
        (3, n, 0) for n in range(1, 5)
    ]
    assert found[0].loss == 3.0
    assert all(step.seconds >= step.ready > 0 for step in found[1:])


def test_who_does_not_want_it_is_not_watched(host: Host) -> None:
    tell = "import os, sys; assert 'RANKBOARD_EVENTS_FD' not in os.environ; print(sys.meta_path)"
    assert steps(host, tell + STEPS, RANKBOARD_WATCH="0") == []
