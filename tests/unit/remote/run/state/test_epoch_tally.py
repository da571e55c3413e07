"""The line of an epoch in the log: what all ranks came to, their test and checkpoint."""

from __future__ import annotations

from dataclasses import replace

from remote.run.run_state import RunState
from tests.kit.histories import History, plan, said, stepped
from training.job import Job
from training.wire.rank_events import Epoch, Evaluated, Finished, Saved

CHECKPOINT = "Checkpoint: step 10, 0.3 MB in 0.206 seconds, /home/me/runs/one/checkpoints"

SAVING_PLAN = replace(plan(2), work=Job(checkpoint_every="epoch"))


def end_epoch(history: History, epoch: int, *, ranks: tuple[int, ...] = (0, 1)) -> None:
    """These ranks finish an epoch of ten steps, the second one with twice the loss."""
    for rank in ranks:
        step = 10 * epoch
        history.rank(rank, stepped(rank, step))
        history.rank(rank, Epoch(rank, epoch, step, 0.25 * (rank + 1), 0.5, 8, 3.0 + rank))


def epoch_lines(run: RunState) -> list[str]:
    return [line.text for line in run.log.lines if line.stream == "epoch"]


def test_an_epoch_is_one_line_with_its_test_and_its_checkpoint() -> None:
    history = History(SAVING_PLAN).training()
    end_epoch(history, 1)
    for rank in range(2):
        history.rank(rank, Evaluated(rank, 1, 10, 0.309, 0.903, 100, 0.1))
        history.rank(rank, Saved(rank, 1, 10, 0.2, 300_000))
    history.rank(0, said(0, CHECKPOINT, "stdout"))
    run = history.state()
    line = "epoch 1 done  loss 0.3750  50%  test 0.3090 90.3%  4.0 s  ckpt 10"
    assert epoch_lines(run) == [line]
    # The path is still among all lines, but no news.
    assert [news.text for news in run.log.lines] == [line]
    assert [routine.text for routine in run.log.routine] == [CHECKPOINT]


def test_it_is_there_before_the_next_step_whichever_rank_comes_last() -> None:
    history = History(plan(2)).training()
    history.rank(1, stepped(1, 9))
    end_epoch(history, 1, ranks=(0,))
    history.rank(0, Evaluated(0, 1, 10, 0.309, 0.903, 100, 0.1), stepped(0, 11))
    assert epoch_lines(history.state()) == []
    end_epoch(history, 1, ranks=(1,))
    assert len(epoch_lines(history.state())) == 1
    end_epoch(history, 2)
    assert len(epoch_lines(history.state())) == 1, "the test is not known yet"
    history.rank(0, Evaluated(0, 2, 20, 0.309, 0.903, 100, 0.1))
    assert len(epoch_lines(history.state())) == 2


def test_it_waits_for_a_checkpoint_that_is_due() -> None:
    history = History(SAVING_PLAN).training()
    end_epoch(history, 1)
    history.rank(0, Evaluated(0, 1, 10, 0.309, 0.903, 100, 0.1))
    assert epoch_lines(history.state()) == []
    history.rank(0, Saved(0, 1, 10, 0.2, 300_000))
    (line,) = epoch_lines(history.state())
    assert line.endswith("ckpt 10")


def test_it_waits_for_the_last_rank() -> None:
    history = History(plan(2)).training()
    for rank in range(2):
        history.rank(rank, stepped(rank, 9))
    end_epoch(history, 1, ranks=(0,))
    history.rank(0, stepped(0, 11))
    assert epoch_lines(history.state()) == []
    end_epoch(history, 1, ranks=(1,))
    assert len(epoch_lines(history.state())) == 1


def test_the_last_epoch_has_its_line_although_no_step_follows() -> None:
    history = History(plan(2)).training()
    end_epoch(history, 1)
    history.rank(0, Finished(0, 1, 10, 1.0)).rank(1, Finished(1, 1, 10, 1.0))
    assert epoch_lines(history.state()) == ["epoch 1 done  loss 0.3750  50%  4.0 s"]


def test_a_checkpoint_of_the_epoch_before_is_not_told_again() -> None:
    history = History(plan(2)).training()
    end_epoch(history, 1)
    history.rank(0, Saved(0, 1, 10, 0.2, 300_000), stepped(0, 11))
    end_epoch(history, 2)
    history.rank(0, stepped(0, 21))
    first, second = epoch_lines(history.state())
    assert first.endswith("ckpt 10")
    assert "ckpt" not in second
