"""What it costs that a script is watched: the median step of the examples for DDP and FSDP on two
ranks of this machine, watched against not watched.

The watch is switched on and off every ten steps of one process, in both ranks at once, so that
neighbouring slices are compared: two processes differ by more than the watch costs, for they got
other memory, and minutes differ more still. Switched off, its hooks return at once.

Two neighbouring slices are a pair. Its ratio is that of the median seconds of a step of rank 0. CPU
time is told as well, as other programs lengthen it less; and the CPU time that the hooks themselves
take of a step, on and off.

Each example is taken as it is, and with a batch so large that a step takes 20 ms or more. Prints
the difference and the ratio of each, with their 95 % intervals, last.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from parts import switched

from remote.statistics.interval import ValueScale, mean_interval
from training.agent.host import processes
from training.agent.ranks.launch import SITE
from training.place import EVENTS_FD, WATCH

RANKS = 2
EXAMPLES = Path(__file__).absolute().parents[1] / "examples"
BATCHES = {"ddp.py": (64, 1024), "fsdp.py": (64, 1024)}
GATHER = 0.1
"""Seconds between two looks at what the watch says, as an agent's."""
PATIENCE = 120.0
WARM = 4
"""Slices at the start that do not count."""


@dataclass(frozen=True)
class Slice:
    """Medians of the seconds and CPU seconds of its steps; the mean CPU seconds of hooks."""

    watched: bool
    seconds: float
    cpu: float
    hooks: float


Pair = tuple[Slice, Slice]
"""One that is watched, and one that is not."""


def start(example: str, batch: int, folder: Path) -> list[subprocess.Popen[bytes]]:
    """The ranks of an example; each writes its steps to `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "MASTER_PORT": port}
    world |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = []
    for rank in range(RANKS):
        pipe, end = os.pipe()
        env = world | {"RANK": rank, "LOCAL_RANK": rank, "PYTHONPATH": SITE}
        env |= {WATCH: 1, EVENTS_FD: end}
        words = [str(folder / str(rank)), str(EXAMPLES / example), "--steps", str(10**9)]
        process = subprocess.Popen(
            [sys.executable, switched.__file__, *words, "--batch-size", str(batch)],
            env=os.environ | {key: str(value) for key, value in env.items()},
            stderr=subprocess.DEVNULL,
            pass_fds=[end],
            start_new_session=True,
        )
        os.close(end)
        threading.Thread(target=_empty, args=(pipe,), daemon=True).start()
        ranks.append(process)
    return ranks


def _empty(pipe: int) -> None:
    while os.read(pipe, 1 << 16):
        time.sleep(GATHER)
    os.close(pipe)


def compare(example: str, batch: int, seconds: float) -> list[Pair]:
    """The pairs of an example that trains for so long."""
    with tempfile.TemporaryDirectory() as name:
        steps = Path(name, "0")
        try:
            ranks = start(example, batch, Path(name))
            until = time.monotonic() + PATIENCE
            while not (steps.exists() and steps.stat().st_size):
                if time.monotonic() > until:
                    raise SystemExit("the ranks do not train")
                time.sleep(0.2)
            time.sleep(seconds)
            if any(process.poll() is not None for process in ranks):
                raise SystemExit("a rank failed")
        finally:
            processes.end_descendants(PATIENCE)
        found = list(pairs(steps.read_text().splitlines()[:-1]))
    if len(found) < 2:
        raise SystemExit("too few steps: give more --seconds")
    return found


def pairs(lines: Sequence[str]) -> Iterator[Pair]:
    """The pairs of a rank, of what it wrote."""
    ends = [[*map(float, line.split())] for line in lines]
    steps = [(*(b - a for a, b in zip(*two, strict=True)),) for two in pairwise(ends)]
    size, slices = switched.SLICE, []
    for begin in range(WARM * size - 1, len(steps) - size + 1, size):
        seconds, cpu, hooks, _ = zip(*steps[begin : begin + size], strict=True)
        watched = bool(ends[begin + 1][-1])
        median = statistics.median
        slices.append(Slice(watched, median(seconds), median(cpu), statistics.fmean(hooks)))
    for first, second in zip(slices[::2], slices[1::2], strict=False):
        yield (first, second) if first.watched else (second, first)


def described(title: str, found: Sequence[Pair]) -> str:
    """What came of an example, in a line."""
    more = [1e3 * (on.seconds - off.seconds) for on, off in found]
    cpu = [1e3 * (on.cpu - off.cpu) for on, off in found]
    ratio = mean_interval([on.seconds / off.seconds for on, off in found])
    alone = 1e3 * statistics.median(off.seconds for _, off in found)
    hooks = [
        1e3 * statistics.median(one.hooks for one in side) for side in zip(*found, strict=True)
    ]
    return (
        f"{title}, {alone:.1f} ms not watched, {len(found)} pairs: {_shown(more)} ms, "
        f"{_shown(cpu)} ms of CPU time; watched / not watched: {ratio.value:.4f}, "
        f"{ratio.low:.4f} to {ratio.high:.4f}; hooks: {hooks[0]:.3f} ms, off {hooks[1]:.3f} ms"
    )


def _shown(values: Sequence[float]) -> str:
    found = mean_interval(values, ValueScale.DIFFERENCE)
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def main() -> None:
    """Compare each example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0, help="of each example and batch")
    parser.add_argument("--only", choices=BATCHES, help="one of the examples")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what has been started ends, too
    lines = []
    for example in [given.only] if given.only else BATCHES:
        for batch in BATCHES[example]:
            found = compare(example, batch, given.seconds)
            lines.append(described(f"{example}, batches of {batch}", found))
            print(lines[-1], flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
