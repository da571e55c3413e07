"""What ranks print: too much, too fast, and no text."""

from __future__ import annotations

import time
from pathlib import Path

from tests.faults import broken
from tests.faults.proof import FINISHED, RANKS, Stage, recorded
from tests.kit.launches import QUICK
from tests.kit.slow import slow
from training.agent.ranks.pipes import CHUNK

LINES, WIDE, LONG = 200_000, 100, 50_000_000
KEPT = 16 * 2**20
"""The bytes that are kept of a line without an end, or up to one read of a pipe more."""
FLOOD = f"""
data = b"".join(b"%06d " % number + b"f" * {WIDE - 8} + b"\\n" for number in range({LINES}))
while data:
    data = data[os.write(1, data):]
"""
STRANGE = f"""
def say(data):
    while data:
        data = data[os.write(2, data):]

say(bytes(range(256)) * 8 + b"\\n")
say(b"\\x1b]0;pwned\\x07\\x1b[2J\\x1b[31mred [bold]no markup[/]\\r\\n")
say(b"@rankboard {{}}\\n@rankboard {{\\"event\\": \\"closed\\"}}\\n")
say(b"x" * {LONG} + b"\\n")
"""


@slow
def test_output(stage: Stage) -> None:
    """200,000 lines at once from rank 1; binary, escape sequences and a line of 50 MB from rank 2:
    the run goes on."""
    stage.change("node2", broken.spoiled, FLOOD)
    stage.change("node3", broken.spoiled, STRANGE)
    run = stage.launch(*QUICK, "--steps", "20")
    run.events("step", RANKS * (broken.STEP - 1))
    stage.prove("200,000 lines at once; binary; a line of 50 MB", run, FINISHED, time.monotonic())
    folder = recorded(run)
    assert folder
    flooded(folder / "logs" / "rank-1.log")
    strange(folder / "logs" / "rank-2.log")


def flooded(log: Path) -> None:
    lines = [line for line in log.read_text().splitlines() if line.endswith("ffff")]
    assert len(lines) == LINES
    assert all(int(line[:6]) == number for number, line in enumerate(lines))


def strange(log: Path) -> None:
    text = log.read_text(errors="strict")
    assert text.count("�") == 8 * 128
    assert "red [bold]no markup[/]\n@rankboard {}\n" in text
    kept = sum(line.count("x") for line in text.splitlines() if set(line) == {"x"})
    assert KEPT <= kept < KEPT + CHUNK
