"""What the tests of the agent share: hosts whose agents really run, and the proof that they leave
no process behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests.kit.wait import GUARD, wait
from training.agent import MARKER
from training.agent.host_commands import process_table
from training.agent.times import AgentTimes
from training.wire import commands
from training.wire.commands import Placement
from training.wire.events import Event, Record, decode, from_object
from training.wire.host_events import Exited, Hello, OutputText, Spawned
from training.wire.jsonl import load

ROOT = Path(__file__).parents[2]
MARK = "RANKBOARD_TEST"
"""An environment variable that all processes of one test inherit."""
E = TypeVar("E", bound=Event)


def marked(mark: str) -> list[int]:
    """The processes of the test with this mark. A zombie has no environment any more."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def python(code: str, rank: int = 0, **env: str) -> Placement:
    """A rank that runs some lines of Python."""
    return Placement(rank, rank, (sys.executable, "-c", code), tuple(env.items()))


def answered(line: bytes) -> Record | None:
    """The record of an event that the errand `check` answers with."""
    return from_object((load(line) or {}) | {"host": 3, "attempt": 0, "seq": 1})


class Follower:
    """One follower (or the errand `check`), the records that it passed on, and its stdin."""

    def __init__(self, words: Sequence[str], mark: str, program: str = "") -> None:
        start = ["-c", program] if program else ["-m", "training.agent"]
        env = {**os.environ, MARK: mark, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, *start, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        self.records: list[Record] = []
        self.lines: list[bytes] = []
        self.ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        self.marker = self.process.stdout.readline()
        for line in self.process.stdout:
            self.lines.append(line)
            if record := decode(line) or answered(line):
                self.records.append(record)
        self.ended = True

    def send(self, *said: commands.Command) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"".join(map(commands.encode, said)))
        self.process.stdin.flush()

    def start(self, *placements: Placement, preload: bool = False) -> None:
        self.send(commands.StartAttempt(1, preload, placements))

    def stop(self, grace: float) -> None:
        self.send(commands.Stop(grace))

    def of(self, kind: type[E], rank: int | None = None) -> list[E]:
        """The events of this kind, of this rank if one is given, so far."""
        events = [record.event for record in list(self.records)]
        return [
            event
            for event in events
            if isinstance(event, kind) and rank in (None, getattr(event, "rank", None))
        ]

    def wait_for(self, kind: type[E], number: int = 1, rank: int | None = None) -> list[E]:
        """That many events of this kind."""
        wait(
            lambda: len(self.of(kind, rank)) >= number or self.ended, f"{number} x {kind.__name__}"
        )
        assert len(self.of(kind, rank)) >= number, (
            f"ended without {number} x {kind.__name__}: {self.records[-5:]}"
        )
        return self.of(kind, rank)

    def text(self, rank: int = 0, stream: str = "stdout") -> str:
        """All that a rank wrote so far."""
        return "\n".join(text.text for text in self.of(OutputText, rank) if text.stream == stream)

    def wait_for_text(self, text: str, rank: int = 0) -> None:
        wait(lambda: text in self.text(rank), f"{text!r} from rank {rank}")

    def exits(self, number: int) -> dict[int, Exited]:
        """How the ranks ended, when that many have."""
        return {event.rank: event for event in self.wait_for(Exited, number)}

    def close(self) -> list[Record]:
        """Tell the agent to close; all records."""
        self.send(commands.Close())
        return self.rest()

    def rest(self) -> list[Record]:
        """Everything up to the end of the line, which is a clean one."""
        wait(lambda: self.ended, "the end of the journal")
        assert self.marker == MARKER
        assert self.process.wait(GUARD) == 0
        return self.records

    def kill(self) -> None:
        """As if the connection broke, or the launcher was killed."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()

    def agent(self) -> int:
        """The pid of the agent."""
        return self.wait_for(Hello)[0].pid

    def pid(self, rank: int = 0) -> int:
        """The pid of a rank."""
        return self.wait_for(Spawned, 1, rank)[0].pid


class Host:
    """A place for one run's agent, and the followers that the test opened."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder, self.mark = folder, mark
        self.followers: list[Follower] = []

    def follow(
        self, *options: str, after: int = 0, times: AgentTimes | None = None, preload: str = ""
    ) -> Follower:
        """A new follower; with other times or a preload of the test's own, if given."""
        program = ""
        if times or preload:
            more = f", preload=(sys.executable, '-c', {preload!r})" if preload else ""
            program = (
                "import sys; from training.agent.times import AgentTimes; from "
                "training.agent.__main__ import main; "
            )
            program += f"sys.exit(main(sys.argv[1:], times={times or AgentTimes()!r}{more}))"
        where = (
            "--folder",
            str(self.folder),
            "--run",
            "a-run",
            "--host",
            "3",
            "--after",
            str(after),
        )
        self.followers.append(Follower(("follow", *where, *options), self.mark, program))
        return self.followers[-1]

    def check(self, program: str = "", needs: str = "") -> Follower:
        """The errand of the doctor, which obeys some of the commands of an agent."""
        words = ("check", str(self.folder), "127.0.0.1", needs)
        self.followers.append(Follower(words, self.mark, program))
        return self.followers[-1]

    def processes(self) -> list[int]:
        return marked(self.mark)

    def wait_until_empty(self) -> None:
        """No process of the test is left."""
        wait(lambda: not self.processes(), "the end of all processes")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host; at the end of the test nothing runs there any more."""
    with hosting(tmp_path / "run") as host:
        yield host


@contextlib.contextmanager
def hosting(folder: Path) -> Iterator[Host]:
    """A host whose run has this folder; in the end nothing runs there any more."""
    host = Host(folder, uuid.uuid4().hex)
    try:
        yield host
        wait(lambda: not host.processes(), "the end of all processes of the test")
    finally:
        for pid in host.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for follower in host.followers:
            follower.kill()


SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def kill_both(line: Follower) -> None:
    """Guard and agent, as if at once."""
    agent = line.agent()
    guard = process_table.list_processes()[agent].parent
    for pid in (guard, agent):
        os.kill(pid, signal.SIGSTOP)
    for pid in (agent, guard):
        os.kill(pid, signal.SIGKILL)
    wait(
        lambda: not {guard, agent} & process_table.list_processes().keys(),
        "guard and agent are gone",
    )
    line.kill()
