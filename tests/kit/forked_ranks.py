"""Ranks forked as the preload forks them, by one process that imports torch once for many runs: a
run takes half a second.

`python -m tests.kit.forked_ranks` obeys one JSON object per line: `start` (folder, port's owner is
rank 0; per rank argv and env) answers with the ranks' process ids, `wait` with their exit statuses.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.kit.training_ranks import ROOT, Ranks, alive, kill
from tests.kit.wait import wait
from training.job import Job
from training.wire.commands import Placement, StartAttempt, encode


class Forker:
    """The process that forks, and what it has started. `folder` is where the ranks work."""

    def __init__(self, folder: Path) -> None:
        env = os.environ | {"PYTHONPATH": str(ROOT), "RANKBOARD_CACHE": str(folder / "cache")}
        pipe = subprocess.PIPE
        self.folder, self.runs = folder, list[Forked]()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.forked_ranks"],
            stdin=pipe,
            stdout=pipe,
            cwd=folder,
            env=env,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(
        self, name: str, job: Job, folders: Sequence[Path | None], copies: bool = False
    ) -> Forked:
        """A run of one rank per entry: of its run's folder on its host, or None where there is no
        agent. `copies`: as where it may go on without a host."""
        run = Forked(self, self.folder / "output" / name, len(folders))
        run.folder.mkdir(parents=True)
        self.runs.append(run)
        hosts = list(dict.fromkeys(folders))
        envs = []
        for rank, folder in enumerate(folders):
            env = {
                "RANK": rank,
                "LOCAL_RANK": folders[:rank].count(folder),
                "WORLD_SIZE": run.world,
            }
            env |= {
                "LOCAL_WORLD_SIZE": folders.count(folder),
                "GROUP_RANK": hosts.index(folder),
                "OMP_NUM_THREADS": 1,
            }
            env |= {"GLOO_SOCKET_IFNAME": "lo", "RANKBOARD_FOLDER": folder or ""} | (
                {"RANKBOARD_COPIES": 1} if copies else {}
            )
            envs.append({key: str(value) for key, value in env.items()})
        run.known = self.ask(do="start", folder=str(run.folder), argv=job.argv(), envs=envs)
        return run

    def run(
        self,
        name: str,
        job: Job,
        folders: Sequence[Path | None],
        codes: Sequence[int] = (),
        copies: bool = False,
    ) -> Forked:
        """A run to its end, each rank's with its exit code (0)."""
        run = self.start(name, job, folders, copies)
        assert run.wait() == dict(enumerate(codes or [0] * run.world)), "\n".join(
            map(run.err, range(run.world))
        )
        return run

    @contextmanager
    def preload(
        self,
        folder: Path,
        job: Job | Sequence[str],
        world: int,
        only: int | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[Preloaded]:
        """`world` ranks of a job, of which the first `only` are started, below a preload of their
        own; whatever is left of them at the end is killed."""
        argv = job.argv() if isinstance(job, Job) else job
        place = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "OMP_NUM_THREADS": 1}
        place |= {"GLOO_SOCKET_IFNAME": "lo"}
        envs = [
            {key: str(value) for key, value in place.items()}
            | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            | dict(env)
            for rank in range(only or world)
        ]
        pid = self.ask(do="preload", folder=str(folder), argv=list(argv), envs=envs)
        started = Preloaded(self, folder, world, pid)
        try:
            yield started
        finally:
            if started.code is None:
                kill(pid)
            started.wait()
            wait(lambda: not any(map(alive, started.pids().values())), "the ranks' end")


class Preloaded(Ranks):
    """The ranks of one preload, which is process `pid`."""

    def __init__(self, forker: Forker, folder: Path, world: int, pid: int) -> None:
        super().__init__(folder, world)
        self.forker, self.pid = forker, pid
        self.code: int | None = None

    def wait(self) -> dict[int, int]:
        """Waits for the preload's end: the ranks' exit statuses."""
        if self.code is None:
            (self.code,) = self.forker.ask(do="wait", pids=[self.pid])
        return self.exits()


class Forked(Ranks):
    """The ranks of one run, without a preload."""

    def __init__(self, forker: Forker, folder: Path, world: int) -> None:
        super().__init__(folder, world)
        self.forker = forker
        self.known: list[int] = []
        self.codes: dict[int, int] = {}

    def wait(self) -> dict[int, int]:
        """Waits for the end of all: their exit codes, or minus the signal's number."""
        if not self.codes:
            self.codes = dict(enumerate(self.forker.ask(do="wait", pids=self.known)))
        return self.codes

    def pids(self) -> dict[int, int]:
        return dict(enumerate(self.known))


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    """The process; whatever is left of it and its ranks at the end is killed."""
    made = Forker(tmp_path_factory.mktemp("ranks"))
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()
        left = [pid for run in made.runs if not run.codes for pid in run.known if alive(pid)]
        for pid in left:
            kill(pid)
        wait(lambda: not any(map(alive, left)), "the ranks' end")


def main() -> None:
    """Obeys until there is nothing more to read."""
    from training.preload import import_torch

    import_torch()
    with suppress(ImportError):
        import torchvision  # noqa: F401 - else each rank of its models imports it
    does = {"start": _start, "preload": _preload, "call": _call, "cases": _cases, "wait": _wait}
    for line in sys.stdin:
        request = json.loads(line)
        answer = does[request.pop("do")](**request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _start(folder: str, argv: list[str], envs: list[dict[str, str]]) -> list[int]:
    from training.preload import PreloadDescriptors, fork_rank

    files, listener = _outputs(folder, envs), socket.create_server(("127.0.0.1", 0))
    report = os.open(os.devnull, os.O_WRONLY)
    fds = PreloadDescriptors(report, files, listener.fileno())
    pids = [fork_rank(placement, fds) for placement in _placements(argv, envs, listener)]
    _close(listener, report, files)
    return pids


def _preload(folder: str, argv: list[str], envs: list[dict[str, str]]) -> int:
    """A process that is the preload, but for its imports, which are there."""
    from training import preload

    files, listener = _outputs(folder, envs), socket.create_server(("127.0.0.1", 0))
    report = os.open(Path(folder, "report"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def run() -> int:
        read, write = os.pipe()
        os.write(write, encode(StartAttempt(0, True, tuple(_placements(argv, envs, listener)))))
        os.close(write)
        os.dup2(read, 0)
        os.environ["RANKBOARD_CACHE"] = f"{folder}/cache"
        pipes = ",".join(f"{rank}:{out}:{err}" for rank, (out, err) in files.items())
        words = ["--report-fd", str(report), "--listen-fd", str(listener.fileno())]
        return preload.main([*words, "--pipes", pipes])

    pid = _forked(run)
    _close(listener, report, files)
    return pid


def _call(folder: str, module: str, worlds: list[str]) -> int:
    """A process whose ranks call functions of a module, see `rank_calls`."""
    from tests.kit import rank_calls

    def run() -> int:
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Guards may run slower on Python 3.13.0")
        os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        return rank_calls.main(Path(folder), module, worlds)

    return _forked(run)


def _cases(folder: str, backend: str, patience: float) -> int:
    """A process whose ranks run the cases that are pickled in the folder, see `sync_ranks`."""
    from tests.kit import sync_ranks

    def run() -> int:
        os.dup2(os.open(Path(folder, "stderr"), os.O_CREAT | os.O_WRONLY), 2)
        warnings.simplefilter("error", FutureWarning)  # the calls that torch has deprecated
        os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        sync_ranks.main(Path(folder), backend, timedelta(seconds=patience))
        return 0

    return _forked(run)


def _forked(run: Callable[[], int]) -> int:
    """Does something in a process of its own: its id."""
    from training.agent.host.processes import die_with

    parent = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        die_with(parent)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # ours are the answers to requests
        code = run()
    except BaseException:  # noqa: BLE001 - printed, as the interpreter would
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def _close(listener: socket.socket, report: int, files: dict[int, tuple[int, int]]) -> None:
    listener.close()
    for descriptor in (report, *(end for ends in files.values() for end in ends)):
        os.close(descriptor)


def _placements(
    argv: list[str], envs: list[dict[str, str]], listener: socket.socket
) -> Iterator[Placement]:
    address, port = listener.getsockname()
    place = (("MASTER_ADDR", address), ("MASTER_PORT", str(port)))
    for rank, env in enumerate(envs):
        yield Placement(rank, int(env["LOCAL_RANK"]), tuple(argv), (*place, *env.items()))


def _outputs(folder: str, envs: list[dict[str, str]]) -> dict[int, tuple[int, int]]:
    """Each rank's stdout and stderr."""

    def output(rank: int, kind: str) -> int:
        return os.open(Path(folder, f"{rank}.{kind}"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    return {rank: (output(rank, "out"), output(rank, "err")) for rank in range(len(envs))}


def _wait(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


if __name__ == "__main__":
    main()
