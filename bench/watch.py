"""What it costs that a script is watched: the median step of the examples for DDP and FSDP on two
ranks of this machine, watched against not watched.

Both worlds run at once and take turns of a second or more, as in bench/overhead.py: one after
another, they would be compared over minutes, in which a shared machine becomes faster or slower.
Two neighbouring slices are a pair. Its ratio is that of the median seconds between two steps of
rank 0. The CPU time of a step is told as well, as other programs lengthen it less.

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
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from parts.turns import Turns

from remote.statistics.interval import Scale, interval
from training.agent.host import processes
from training.agent.ranks.launch import SITE
from training.place import EVENTS_FD, WATCH

RANKS = 2
EXAMPLES = Path(__file__).absolute().parents[1] / "examples"
BATCHES = {"ddp.py": (64, 1024), "fsdp.py": (64, 1024)}
GATHER = 0.1
"""Seconds between two looks at what the watch says, as an agent's."""
PATIENCE = 120.0
RANK = """
import runpy, sys, time
from torch.optim.optimizer import register_optimizer_step_post_hook
file = open(sys.argv.pop(1), "wb", 256)
ended = lambda *_: file.write(b"%.6f %.6f\\n" % (time.time(), time.process_time()))
register_optimizer_step_post_hook(ended)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Step:
    """Wall seconds and CPU seconds of a step; or until its end."""

    seconds: float
    cpu: float


class World:
    """The ranks of an example. Rank 0 writes when its steps end to `ends`."""

    def __init__(self, example: str, batch: int, watched: bool, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        world = {"WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "MASTER_PORT": port}
        world |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1, "GLOO_SOCKET_IFNAME": "lo"}
        self.ends = folder / f"ends-{watched}-0"
        self.ranks = []
        for rank in range(RANKS):
            env = world | {"RANK": rank, "LOCAL_RANK": rank, "PYTHONPATH": SITE}
            pipe, end = os.pipe()
            if watched:
                env |= {WATCH: 1, EVENTS_FD: end}
            ends = str(folder / f"ends-{watched}-{rank}")
            lengths = ["--steps", str(10**9), "--batch-size", str(batch)]
            process = subprocess.Popen(
                [sys.executable, "-c", RANK, ends, str(EXAMPLES / example), *lengths],
                env=os.environ | {key: str(value) for key, value in env.items()},
                stderr=subprocess.DEVNULL,
                pass_fds=[end],
                start_new_session=True,
            )
            os.close(end)
            threading.Thread(target=_empty, args=(pipe,), daemon=True).start()
            self.ranks.append(process)

    def trains(self) -> bool:
        """Whether it has made some steps. Ends the program where a rank has failed."""
        if any(process.poll() is not None for process in self.ranks):
            raise SystemExit("a rank failed")
        return self.ends.exists() and self.ends.stat().st_size > 1000

    def step(self, begin: float, end: float) -> Step:
        """The median of the steps that lie wholly between these times."""
        lines = self.ends.read_text().splitlines()[:-1]
        ends = [Step(*map(float, line.split())) for line in lines]
        found = [
            (after.seconds - before.seconds, after.cpu - before.cpu)
            for before, after in pairwise(ends)
            if begin < before.seconds and after.seconds < end
        ]
        if not found:
            raise SystemExit("no step lies within a slice: give a longer --slice")
        return Step(*map(statistics.median, zip(*found, strict=True)))


def _empty(pipe: int) -> None:
    while os.read(pipe, 1 << 16):
        time.sleep(GATHER)
    os.close(pipe)


def compare(example: str, batch: int, pairs: int, seconds: float) -> list[tuple[Step, Step]]:
    """The median step, watched and not, of each pair."""
    turns = Turns()
    with tempfile.TemporaryDirectory() as folder:
        try:
            watched, alone = (World(example, batch, on, Path(folder)) for on in (True, False))
            turns.roots = [process.pid for process in alone.ranks]
            until = time.monotonic() + PATIENCE
            while not (watched.trains() and alone.trains()):
                if time.monotonic() > until:
                    raise SystemExit("the ranks do not train")
                time.sleep(0.2)
            slices = []
            for number in range(pairs + 1):
                turns.let(number % 2 == 0)
                begin = time.time()
                time.sleep(seconds)
                slices.append((number % 2 == 0, begin, time.time()))
            turns.let_all()
            time.sleep(0.5)  # for the last lines
        finally:
            processes.end_descendants(PATIENCE)
        medians = [(on, (watched if on else alone).step(begin, end)) for on, begin, end in slices]
    return [(a, b) if on else (b, a) for (on, a), (_, b) in pairwise(medians)]


def described(title: str, pairs: Sequence[tuple[Step, Step]]) -> str:
    """What came of an example, in a line."""
    more = [1e3 * (with_it.seconds - without.seconds) for with_it, without in pairs]
    cpu = [1e3 * (with_it.cpu - without.cpu) for with_it, without in pairs]
    ratio = interval([with_it.seconds / without.seconds for with_it, without in pairs])
    alone = 1e3 * statistics.median(without.seconds for _, without in pairs)
    return (
        f"{title}, {alone:.1f} ms alone, {len(pairs)} pairs: {_shown(more)} ms, "
        f"{_shown(cpu)} ms of CPU time; watched / not watched: {ratio.value:.4f}, "
        f"{ratio.low:.4f} to {ratio.high:.4f}"
    )


def _shown(values: Sequence[float]) -> str:
    found = interval(values, Scale.DIFFERENCE)
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def main() -> None:
    """Compare each example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=16, help="of each example and batch")
    parser.add_argument("--slice", type=float, default=3.0, help="seconds")
    parser.add_argument("--only", choices=BATCHES, help="one of the examples")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what has been started ends, too
    lines = []
    for example in [given.only] if given.only else BATCHES:
        for batch in BATCHES[example]:
            pairs = compare(example, batch, given.pairs, given.slice)
            lines.append(described(f"{example}, batches of {batch}", pairs))
            print(lines[-1], flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
