"""Ranks forked by a real `python -m training.preload`, as an agent would start them, with files in
place of pipes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.kit.wait import wait
from training.job import Job
from training.wire.commands import Placement, Start, encode
from training.wire.events import Evaluated, Event, Record, Step, Text, expand

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Ranks:
    """The ranks of one preload: their output, events, pids and exit statuses, each as far as it has
    come."""

    def __init__(self, folder: Path, world: int) -> None:
        self.folder, self.world = folder, world
        self.process: subprocess.Popen[bytes]

    def start(self, argvs: Sequence[Sequence[str]], env: dict[str, str]) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        address, port = listener.getsockname()
        report = os.open(self.folder / "report", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        pipes = [
            (rank, self._file(rank, "out"), self._file(rank, "err")) for rank in range(len(argvs))
        ]
        place = {"WORLD_SIZE": str(self.world), "LOCAL_WORLD_SIZE": str(self.world)}
        place |= {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        placements = [
            Placement(
                rank,
                rank,
                tuple(argv),
                tuple((place | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | env).items()),
            )
            for rank, argv in enumerate(argvs)
        ]
        inherited = [report, listener.fileno(), *(end for _, *ends in pipes for end in ends)]
        words = ["--report-fd", str(report), "--listen-fd", str(listener.fileno())]
        words += ["--pipes", ",".join(":".join(map(str, pipe)) for pipe in pipes)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "training.preload", *words],
            stdin=subprocess.PIPE,
            pass_fds=inherited,
            cwd=ROOT,
            env=os.environ | {"RANKBOARD_CACHE": str(self.folder / "cache")},
        )
        for descriptor in inherited:
            os.close(descriptor) if descriptor != listener.fileno() else listener.close()
        assert self.process.stdin
        with self.process.stdin as line:
            line.write(encode(Start(0, True, tuple(placements))))

    def wait(self) -> dict[int, int]:
        """Waits for the preload's end: the ranks' exit statuses."""
        assert self.process.wait(DEADLINE) == 0
        return self.exits()

    def pids(self) -> dict[int, int]:
        return self._said("pid")

    def exits(self) -> dict[int, int]:
        return self._said("exit")

    def out(self, rank: int) -> str:
        return (self.folder / f"{rank}.out").read_text()

    def err(self, rank: int) -> str:
        return (self.folder / f"{rank}.err").read_text()

    def events(self, rank: int) -> list[Event]:
        """What the rank said: events, and text between them."""
        record = Record(0, 0, 0, 0.0, Text(rank, "stdout", self.out(rank).removesuffix("\n")))
        return [record.event for record in expand(record)]

    def steps(self, rank: int) -> list[Step]:
        return [event for event in self.events(rank) if isinstance(event, Step)]

    def evaluated(self, rank: int) -> list[Evaluated]:
        return [event for event in self.events(rank) if isinstance(event, Evaluated)]

    def _file(self, rank: int, kind: str) -> int:
        return os.open(self.folder / f"{rank}.{kind}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def _said(self, word: str) -> dict[int, int]:
        lines = (self.folder / "report").read_text().splitlines()
        return {
            int(rank): int(value) for said, rank, value in map(str.split, lines) if said == word
        }


@contextmanager
def ranks(
    folder: Path,
    job: Job | Sequence[str],
    world: int,
    only: int | None = None,
    env: dict[str, str] | None = None,
) -> Iterator[Ranks]:
    """`world` ranks of a job, of which the first `only` are started; whatever is left of them at
    the end is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = job.argv() if isinstance(job, Job) else job
    started = Ranks(folder, world)
    started.start([argv] * (only or world), env or {})
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        wait(lambda: not any(map(alive, started.pids().values())), "the ranks' end")


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)
