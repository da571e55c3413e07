"""What watching costs: the iteration time of four local ranks with the dashboard open at 160x48,
against the same ranks alone.

"Alone" is one process per rank with torchrun's environment and no launcher. The two sides take
turns in pairs, in changing order; the iteration time is the mean over ranks and over all iterations
but the first. Needs CIFAR-10 and MNIST in --data-dir. Prints the dashboard's share of a core while
its ranks make steps, and the ratio of each job with its 95 % interval, last.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from remote.statistics.interval import interval
from training.wire.events import PREFIX

RANKS = 4
COLUMNS, LINES = 160, 48
BIN = Path(sys.executable).parent
JOBS = {
    "VGG-11 on CIFAR-10": (
        "--model",
        "vgg11",
        "--dataset",
        "cifar10",
        "--batch-size",
        "256",
        "--steps",
        "16",
    ),
    "LeNet-5 on MNIST": (
        "--model",
        "lenet5",
        "--dataset",
        "mnist",
        "--batch-size",
        "256",
        "--steps",
        "600",
    ),
}


@dataclass(frozen=True)
class Watched:
    """Seconds per iteration, and the dashboard's CPU time as a fraction of a core while its ranks
    took steps."""

    iteration: float
    share: float


def alone(job: list[str]) -> float:
    """Seconds per iteration without any launcher."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {
        "WORLD_SIZE": RANKS,
        "LOCAL_WORLD_SIZE": RANKS,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    world |= {"OMP_NUM_THREADS": 1, "GLOO_SOCKET_IFNAME": "lo"}
    ranks, outputs = [], []
    for rank in range(RANKS):
        env = os.environ | {
            key: str(value) for key, value in (world | {"RANK": rank, "LOCAL_RANK": rank}).items()
        }
        outputs.append(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - a pipe that nobody empties would hold the rank up
        command = [sys.executable, "-m", "training", *job]
        ranks.append(
            subprocess.Popen(command, env=env, stdout=outputs[-1], stderr=subprocess.DEVNULL)
        )
    codes = [process.wait() for process in ranks]
    if any(codes):
        raise SystemExit("a rank failed")
    return statistics.fmean(step for output in outputs for step in steps(output))


def steps(output: IO[str]) -> list[float]:
    """Seconds of a rank's iterations after the first."""
    with output:
        output.seek(0)
        events = [json.loads(line[len(PREFIX) :]) for line in output if line.startswith(PREFIX)]
    return [event["seconds"] for event in events if event["event"] == "step" and event["step"] > 1]


def watched(job: list[str], folder: Path) -> Watched:
    """The same with the dashboard open in a terminal of its own."""
    runs = Path(tempfile.mkdtemp(dir=folder))
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        command = [str(BIN / "rankboard"), "--local", str(RANKS), "--runs-dir", str(runs), *job]
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    began = ended = (0.0, 0.0)
    try:
        while not list(runs.glob("*/summary.json")):
            read_for(terminal, 0.25)
            trained = [log for log in runs.glob("*/logs/rank-0.log") if log.stat().st_size]
            if trained and began == (
                0.0,
                0.0,
            ):  # the first line that a rank prints comes with its first steps
                began = (time.monotonic(), cpu_seconds(pid))
            ended = (time.monotonic(), cpu_seconds(pid))
        os.write(terminal, b"q")
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            read_for(terminal, 0.25)
    except BaseException:
        os.kill(pid, signal.SIGTERM)
        raise
    os.close(terminal)
    return Watched(iteration_time(runs), (ended[1] - began[1]) / (ended[0] - began[0]))


def read_for(terminal: int, seconds: float) -> None:
    """Take what the program draws off its terminal."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and select.select([terminal], [], [], left)[0]:
        with contextlib.suppress(OSError):  # the terminal's other end is gone
            os.read(terminal, 65536)


def cpu_seconds(pid: int) -> float:
    """CPU time that a process alone has used, its children aside."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def iteration_time(runs: Path) -> float:
    """Mean seconds of the iterations after the first, from the records of the one run there."""
    from remote.record.read import records as read
    from training.wire.events import Step

    (run,) = (path.parent for path in runs.glob("*/events.jsonl"))
    return statistics.fmean(
        r.event.seconds for r in read(run) if isinstance(r.event, Step) and r.event.step > 1
    )


def main() -> None:
    """Run the pairs of each job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--only", choices=JOBS, help="one of the jobs")
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("RANKBOARD_DATA", "../shared/data"))
    )
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in JOBS.items():
            if arguments.only not in (None, name):
                continue
            job = [
                "--sync",
                "ddp",
                *settings,
                "--data-dir",
                str(arguments.data_dir.absolute()),
                "--no-verify-data",
            ]
            ratios, shares = [], []
            alone(job)  # fills the cache of decoded images
            for pair in range(arguments.pairs):
                if pair % 2:
                    b, a = alone(job), watched(job, Path(folder))
                else:
                    a, b = watched(job, Path(folder)), alone(job)
                ratios.append(a.iteration / b)
                shares.append(a.share)
                times = f"dashboard {a.iteration:.4f} s ({a.share:.1%}), alone {b:.4f} s"
                print(f"{name}, pair {pair + 1}: {times}, ratio {ratios[-1]:.3f}", flush=True)
            share, ratio = statistics.median(shares), interval(ratios)
            lines.append(
                f"{name}: dashboard {share:.1%} of a core; iteration, dashboard / alone, mean of "
                f"{len(ratios)} pairs: {ratio.value:.3f}, {ratio.low:.3f} to {ratio.high:.3f}"
            )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
