"""The order in which the agent reads what ranks write."""

from __future__ import annotations

import os
import selectors

from training.agent.host.redaction import Redaction
from training.agent.ranks.ranks import RankProcesses
from training.wire.events import PREFIX, Event
from training.wire.host_events import OutputText
from training.wire.rank_events import StepFinished
from training.wire.step_block import STEP_ROW, StepBlock, encode_row


def test_steps_come_before_the_lines_that_their_rank_has_printed_after_them() -> None:
    selector = selectors.DefaultSelector()
    reported: list[Event] = []
    ranks = RankProcesses(selector, reported.append, 0.0, Redaction())
    ends: list[int] = []
    for number in range(2):
        rank, pipe_ends = ranks.open(number)
        watch_end = ranks.open_events(rank, 1)
        ranks.hear(rank.pipes)
        os.write(pipe_ends[0], b"step 1\n")
        row = encode_row(StepFinished(number, 0, 1, 0.5, 0.002, 0.0, 0.001, 0.001), 1.0)
        os.write(watch_end, f"{PREFIX}{STEP_ROW}{row}\n".encode())
        ends += [*pipe_ends, watch_end]
    for key, _ in selector.select(1.0):
        key.data()
    for rank in ranks.live:
        ranks.finish(rank.pipes)
        assert rank.workers is not None
        rank.workers.close()
    for end in ends:
        os.close(end)
    selector.close()
    kinds = [type(event) for event in reported]
    assert kinds == [StepBlock, StepBlock, OutputText, OutputText]
