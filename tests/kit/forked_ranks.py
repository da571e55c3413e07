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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kit.training_ranks import ROOT, Ranks, alive, kill
from tests.kit.wait import wait
from training.job import Job
from training.wire.commands import Placement


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


class Forked(Ranks):
    """The ranks of one run."""

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
    from training.preload import load

    load()
    for line in sys.stdin:
        request = json.loads(line)
        answer = _start(request) if request["do"] == "start" else _wait(request["pids"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _start(request: dict[str, Any]) -> list[int]:
    from training.preload import Descriptors, fork

    listener = socket.create_server(("127.0.0.1", 0))
    address, port = listener.getsockname()
    place = (("MASTER_ADDR", address), ("MASTER_PORT", str(port)))
    folder, ranks = Path(request["folder"]), range(len(request["envs"]))
    files = {
        rank: tuple(
            os.open(folder / f"{rank}.{kind}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            for kind in KINDS
        )
        for rank in ranks
    }
    report = os.open(os.devnull, os.O_WRONLY)
    fds = Descriptors(report, files, listener.fileno())
    pids = [
        fork(
            Placement(rank, int(env["LOCAL_RANK"]), tuple(request["argv"]), (*place, *env.items())),
            fds,
        )
        for rank, env in enumerate(request["envs"])
    ]
    listener.close()
    for descriptor in (report, *(end for ends in files.values() for end in ends)):
        os.close(descriptor)
    return pids


KINDS = ("out", "err")


def _wait(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


if __name__ == "__main__":
    main()
