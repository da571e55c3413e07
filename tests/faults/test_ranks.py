"""What happens to one rank of three."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import broken
from tests.faults.proof import RANKS, Expected, Stage
from tests.kit.launches import LONG
from tests.kit.slow import slow

GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = 1 << 30
FILL = "kept = []\nwhile True:\n    kept.append(b'x' * (64 << 20))"


def failed(*says: str) -> Expected:
    """The verdict where rank 2, on node3, is the cause."""
    return Expected("failed", 1, "node3", 2, says)


def spoil(stage: Stage, fault: str, wrong: str, expected: Expected, *lines: str) -> None:
    """Prove how a run ends in which rank 2 does this in its fifth step."""
    stage.change("node3", broken.spoiled, wrong, *lines)
    run = stage.launch(*LONG)
    run.events("step", RANKS * (broken.STEP - 1))
    ending = stage.prove(fault, run, expected, time.monotonic())
    assert ending.cause["step"] == broken.STEP - 1
    assert {rank["fate"] for rank in ending.summary["ranks"]} <= {"failed", "taken down", "stopped"}


@slow
def test_exception(stage: Stage) -> None:
    spoil(
        stage,
        "exception in rank 2",
        'raise ValueError("a bad batch")',
        failed("ValueError: a bad batch"),
    )


@slow
def test_exit_code(stage: Stage) -> None:
    spoil(stage, "exit 3 in rank 2", "sys.exit(3)", failed("exit code 3"))


@slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
def test_signal(stage: Stage, number: signal.Signals) -> None:
    training = stage.train()
    os.kill(training.ranks[2], number)
    stage.prove(
        f"{number.name} of rank 2",
        training.run,
        failed(f"killed by {number.name}"),
        time.monotonic(),
    )


@slow
def test_stopped_rank_and_an_interrupt(stage: Stage) -> None:
    """A rank that stands still takes no TERM; the run ends all the same when it is told to."""
    training = stage.train()
    os.kill(training.ranks[2], signal.SIGSTOP)
    training.run.process.send_signal(signal.SIGINT)
    expected = Expected("stopped", 130, says=("interrupted (Ctrl+C)",))
    stage.prove("SIGSTOP of rank 2, Ctrl-C", training.run, expected, time.monotonic())


@slow
def test_stopped_rank_is_a_stall(stage: Stage) -> None:
    training = stage.train(*LONG, "--on-stall", "stop")
    os.kill(training.ranks[2], signal.SIGSTOP)
    expected = failed("stalled", "by SIGSTOP")
    stage.prove("SIGSTOP of rank 2, --on-stall stop", training.run, expected, time.monotonic())


@pytest.fixture
def group() -> Iterator[Path | None]:
    """A control group (version 1) that may hold so much memory; None where none can be made."""
    path = GROUPS / f"rankboard-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError:
        yield None
        return
    yield path
    path.rmdir()


@slow
def test_memory_limit(stage: Stage, group: Path | None) -> None:
    """By a control group the kernel kills the rank; where there is none, the allocation itself
    fails."""
    if group:
        spoil(
            stage,
            "memory limit of a cgroup in rank 2",
            FILL,
            failed("out of memory"),
            f"echo $$ > {group}/cgroup.procs",
        )
        return
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_DATA, ({LIMIT}, {LIMIT}))\n"
    spoil(stage, "memory limit by rlimit in rank 2", limit + FILL, failed("MemoryError"))
