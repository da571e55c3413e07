"""What a line of the log is: routine or news, whose, how bad; and which one is the first error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from remote.run.output.log_levels import (
    Level,
    LevelReader,
    first_error,
    is_routine,
    strip_rank_prefix,
)
from remote.run.state.types import Cause, LogLine
from tests.kit.histories import GLOO, TRACEBACK, History, plan, raised, said
from training.job import Job
from training.meter import MeteredStep
from training.reports import CompletedStep, StepReporter
from training.schedule import Schedule


def lines(*texts: str, rank: int = 0, stream: str = "stderr", first: int = 0) -> list[LogLine]:
    return [
        LogLine(first + index, 1000.0 + first + index, "node1", rank, stream, text)
        for index, text in enumerate(texts)
    ]


# Routine


@pytest.mark.parametrize("log_format", ["short", "reference"])
@pytest.mark.parametrize("loss", [2.3, 1e-7, 5_000.0, float("nan"), float("inf")])
def test_what_ranks_print_of_steps_epochs_and_tests_is_routine(
    log_format: str, loss: float, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = StepReporter(3, Job(log_format=log_format, log_every=1), Schedule(10, 2))
    for step in (1, 2):
        figures = torch.tensor([loss * 16, 9], dtype=torch.float64)
        progress.report(CompletedStep(step, 16, figures, MeteredStep(0.0, gradient=0.5, end=0.7)))
    progress.report_epoch(1, 2)
    progress.report_test(loss, 0.91, 1)
    printed = capsys.readouterr().out.splitlines()
    kinds = [is_routine(line) for line in printed if not line.startswith("@rankboard")]
    assert kinds == [True, True, True, True]


@pytest.mark.parametrize(
    "line",
    [
        "epoch 1 step 20/938 loss 0.31 acc 0.91 0.041 s/iter and a remark",
        "epoch 1 step 20",
        "Rank: 0 Batch Idx: 20",
        "a line",
        "",
        f"epoch 1 step 2/3 loss {'9' * 500} acc 0.9 1 s/iter",
        "epoch 1 done",
        "Checkpoint: cannot be written",
    ],
)
def test_other_lines_are_news(line: str) -> None:
    assert not is_routine(line)


ROUTINE = "epoch 1 step 20/938 loss 0.3123 acc 0.91 0.041 s/iter"


def test_routine_lines_push_no_news_out_of_the_log() -> None:
    history = History(plan(2)).rank(0, said(0, f"hello\n{ROUTINE}\nepoch 1 done", "stdout"))
    history.rank(1, said(1, "\n".join([ROUTINE] * 30_000), "stdout"))
    log = history.state().log
    assert [line.text for line in log.lines] == ["hello", "epoch 1 done"]
    assert [line.number for line in log.lines] == [0, 2]
    assert (log.count, len(log.routine), log.routine[-1].number) == (30_003, 20_000, 30_002)
    assert [line.number for line in log.since(2)[:2]] == [2, 10_003]
    assert [line.number for line in log.since(30_001)] == [30_001, 30_002]


def test_what_a_host_or_a_script_of_the_user_prints_is_never_routine() -> None:
    script = History(plan(2, script=True)).rank(0, said(0, ROUTINE, "stdout")).state()
    host = History(plan(2)).say(0, said(-1, ROUTINE)).state()
    assert [len(state.log.lines) for state in (script, host)] == [1, 1]
    assert not script.log.routine
    assert not host.log.routine


# Whose


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("[rank3]: Traceback", "Traceback"),
        ("[rank3]:   File", "  File"),
        ("[rank3]:[W1123 18:36:40.1 a.cpp:1] Warning", "[W1123 18:36:40.1 a.cpp:1] Warning"),
        ("[rank 3] hello", "hello"),
        ("[default3]: hello", "hello"),
        ("[3] hello", "hello"),
        ("Rank: 3 Epoch: 1", "Epoch: 1"),
        ("rank 3: hello", "hello"),
        ("rank=3 hello", "hello"),
    ],
)
def test_a_prefix_that_names_the_rank_is_cut(text: str, rest: str) -> None:
    assert strip_rank_prefix(text, 3) == rest


@pytest.mark.parametrize(
    "text",
    [
        "[rank2]: other",
        "Rank 3 is ready",
        "rank 3/4: ready",
        "rank 31",
        "rank 3",
        "[3, 4]",
        "Ranking 3 x",
        "",
        "3 x",
    ],
)
def test_what_is_no_prefix_of_the_rank_stays(text: str) -> None:
    assert strip_rank_prefix(text, 3) == text


# Level


def levels(*texts: str, stream: str = "stderr") -> list[Level]:
    of = LevelReader()
    return [of.read(line) for line in lines(*texts, stream=stream)]


def test_a_traceback_is_an_error_from_its_head_to_its_end() -> None:
    found = levels(
        "loading",
        *TRACEBACK.splitlines(),
        GLOO,
        "Exception raised from recv at pair.cc:1 (most recent call first):",
        "frame #0: c10::Error",
        "",
        "goodbye",
    )
    assert found == [Level.INFO, *[Level.ERROR] * 7, Level.INFO]


def test_tracebacks_of_ranks_that_print_at_once_are_told_apart() -> None:
    of = LevelReader()
    of.read(lines(TRACEBACK.splitlines()[0], rank=0)[0])
    assert of.read(lines("step 7", rank=1)[0]) is Level.INFO
    assert of.read(lines("  main()", rank=0)[0]) is Level.ERROR


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-11-23 18:36:40,409 ERROR train: no data", Level.ERROR),
        ("python -m training: error: data set svhn on node1: no test_32x32.mat", Level.ERROR),
        ("ValueError: bad batch", Level.ERROR),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", Level.ERROR),
        ("[E1123 18:36:40.409113 ProcessGroup.cpp:1] timeout", Level.ERROR),
        ("[W1123 18:36:40.409113 socket.cpp:752] retry", Level.WARNING),
        ("/a/b.py:1: UserWarning: slow", Level.WARNING),
        ("WARNING: slow", Level.WARNING),
        ("test error 0.12", Level.INFO),
        ("errors so far: 3", Level.INFO),
        ("epoch 1 done: mean loss 1.84 acc 0.33 3.704 s/iter, 74.07 s", Level.INFO),
    ],
)
def test_the_level_of_a_line(text: str, level: Level) -> None:
    assert levels(text) == [level]
    assert levels(text, stream="stdout") == [level]


def test_narration_is_a_warning_and_of_a_failure_an_error() -> None:
    told = ("connecting again", "restarted, attempt 2: rank 1: killed by SIGKILL", "lost")
    assert levels(*told, stream="note") == [Level.WARNING, Level.ERROR, Level.ERROR]


# The first error


def failed() -> Iterator[LogLine]:
    """Rank 1 raises after ranks 0 and 2 have broken off because of it; rank 3 has only warned."""
    history = History(plan(4)).training(5)
    history.rank(3, said(3, "WARNING: slow"))
    history.rank(0, *raised(0, GLOO)).rank(2, *raised(2, GLOO))
    state = history.rank(1, *raised(1, "ValueError: bad batch")).closed()
    assert state.cause
    assert state.cause.rank == 1
    found = first_error(state.log.lines, state.cause, 0.0)
    assert found
    yield found


def test_the_first_error_is_the_culprits() -> None:
    found = next(failed())
    assert (found.rank, found.text) == (1, "Traceback (most recent call last):")


def test_before_the_cause_is_known_it_is_no_victims() -> None:
    said_by_all = [*lines(GLOO, rank=0), *lines("ValueError: bad batch", rank=1, first=1)]
    found = first_error(said_by_all, None, 0.0)
    assert found
    assert found.rank == 1
    alone = first_error(said_by_all[:1], None, 0.0)
    assert alone
    assert alone.rank == 0
    assert first_error(lines("all is well"), None, 0.0) is None


def test_a_traceback_of_a_victim_is_passed_over_from_its_head_on() -> None:
    victim = lines(*f"{TRACEBACK}{GLOO}".splitlines(), rank=0)
    note = LogLine(50, 1050.0, "", -1, "note", "restarted, attempt 2: rank 2: killed by SIGKILL")
    assert first_error([*victim, note], None, 0.0) == note


def test_after_a_restart_it_is_of_the_attempt_that_failed() -> None:
    cause = Cause("node1", 1, "ValueError: again")
    texts = lines("ValueError: first", rank=1), lines("ValueError: again", rank=1, first=50)
    found = first_error([*texts[0], *texts[1]], cause, 1020.0)
    assert found
    assert found.text == "ValueError: again"


def test_a_rank_that_died_without_a_word_has_no_error_though_its_victims_have() -> None:
    cause = Cause("node1", 1, "killed by SIGKILL", victims=(0,))
    assert first_error([*lines("step 7", rank=1), *lines(GLOO, rank=0)], cause, 0.0) is None


def test_the_first_error_of_a_host_that_was_lost() -> None:
    cause = Cause("node2", -1, "host lost")
    told = LogLine(5, 1000.0, "node2", -1, "note", "lost: no answer for 30 s")
    assert first_error([*lines(GLOO), told], cause, 0.0) == told
