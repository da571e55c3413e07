"""Three hosts with one rank each, a run on them, and the proof of how it ended."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from remote.cluster.hosts import Host
from remote.record.step_chunks import ChunkReader
from tests.faults.table import PROPERTY, Row, cells
from tests.kit.launches import LONG, QUICK, Launched, launch, left_behind
from tests.kit.launches import run as rankboard
from tests.kit.sshd import Sshd
from tests.kit.wait import wait
from training.wire import events, host_events

ENDING = 90.0
"""Seconds in which a run has ended, whatever became of it; far more than it may take, as the table
shows the seconds."""
LOOKS = 5
"""So often in a row nothing is seen on hosts that are empty: a command that was just being sent may
begin a little later."""
CLEAN = 20.0
"""Seconds after the end of the launcher in which the hosts are empty, also where it could tell them
nothing; far more than it may take, and less than a lease."""
RANKS = 3
SHORT = (*QUICK, "--steps", "20")
"""A job of some steps."""
MEET = """
import os, socket, time

world = int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    server = socket.create_server(place)
    peers = [server.accept()[0] for _ in range(world - 1)]
while os.environ["RANK"] != "0":
    try:
        peers = [socket.create_connection(place)]
        break
    except OSError:
        time.sleep(0.05)
for step in range(1, 100_001):
    for peer in peers:
        peer.sendall(b"x")
    if not all(peer.recv(1) for peer in peers):
        raise ConnectionError("another rank is gone")
    print(f"step {step}/100000 loss 1.0", flush=True)
    time.sleep(0.02)
"""
MEETING = ("--", "python", "-c", MEET)
"""Ranks that meet in each of many steps, as those of a training do, without torch. No word can
follow."""


@dataclass(frozen=True)
class Expected:
    """How a run is to end. `host` and `rank` are the cause's, `says` are words of its text or,
    where there is none, of the narration; `cut_off` are the hosts whose last records nobody could
    bring, so that only gaps before them are losses.
    """

    verdict: str
    code: int
    host: str = ""
    rank: int = -1
    says: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()


FINISHED = Expected("finished", 0)


@dataclass
class Stage:
    """The hosts of one test by name, to be changed before the first run, and where its runs are
    started and recorded.

    `places` has the work folders of hosts that keep them on a disk of their own; `cluster` goes
    into the hosts file.
    """

    sshd: Sshd
    folder: Path
    note: Callable[[str, object], None]
    hosts: dict[str, Host] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)
    cluster: dict[str, str] = field(default_factory=dict)
    launched: list[Launched] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Every host is a machine with an sshd of its own."""
        self.hosts = {host.name: host for host in self.sshd.make_hosts(RANKS)}

    def change(self, name: str, make: Callable[..., Host], *words: Any) -> None:
        """Replace a host by what `make` makes of it."""
        self.hosts[name] = make(self.hosts[name], self.folder, *words)

    def launch(self, *words: str, name: str = "operator") -> Launched:
        """Start a run, in a folder of this name."""
        folder = self.folder / name
        folder.mkdir()
        self.launched.append(launch(folder, "--hosts", str(self.hosts_file()), *(words or LONG)))
        return self.launched[-1]

    def again(self, run: Launched, *words: str) -> int:
        """`rankboard` with these words, from the folder of a run whose launcher is gone, which it
        adds its own words to."""
        done = rankboard(run.folder, *words, "--hosts", str(self.hosts_file()))
        with (run.folder / "stderr").open("a") as stderr:
            stderr.write(done.stderr)
        return done.returncode

    def close(self) -> None:
        """Let nothing live on, whatever came of the test."""
        for run in self.launched:
            with run.process:
                run.process.kill()
        for process in left_behind(self.folder, self.sshd.far_home):
            process.kill()

    def hosts_file(self) -> Path:
        """The hosts as they are now."""
        return self.sshd.hosts_toml(tuple(self.hosts.values()), **self.cluster)

    def train(self, *words: str, steps: int = 20) -> Training:
        """A run that has made some steps."""
        run = self.launch(*words)
        agents = {event["host"]: event["pid"] for event in run.events("hello", RANKS)}
        ranks = {event["rank"]: event["pid"] for event in run.events("spawned", RANKS)}
        run.events("step", steps)
        return Training(run, agents, ranks)

    def prove(self, fault: str, run: Launched, expected: Expected, since: float) -> Ending:
        """Wait for the run's end, note its row of the table, and hold it to what is expected.
        `since`: of the fault."""
        code = run.end(ENDING)
        return self.judge(fault, run, code, expected, time.monotonic() - since)

    def judge(
        self, fault: str, run: Launched, code: int, expected: Expected, seconds: float
    ) -> Ending:
        """The same of a run that has ended, after so many seconds."""
        ending = Ending(
            code, summary(run), run.stderr(), self.left(), *self.losses(run, expected.cut_off)
        )
        row = Row(
            fault,
            ending.verdict,
            ending.named(expected),
            f"{seconds:.1f}",
            len(ending.left),
            ending.lost + ending.twice,
        )
        self.note(PROPERTY, cells(row))
        ending.hold(expected)
        return ending

    def left(self) -> list[str]:
        """The processes that stay on the hosts, or serve connections to them, once there was time
        to end."""
        with suppress(AssertionError):  # the row of the table says what is left
            wait(lambda: not any(self.living() for _ in range(LOOKS)), "empty hosts", CLEAN)
        return self.living()

    def living(self) -> list[str]:
        """The processes on the hosts now, and the connections to them."""
        mine = []
        for process in left_behind(self.folder, self.sshd.far_home):
            with suppress(psutil.NoSuchProcess):  # it is just ending
                mine.append(f"{process.pid} {process.name()}")
        served = [
            process for daemon in self.sshd.daemons.values() for process in daemon.connections()
        ]
        return mine + [f"{process.pid} a connection's sshd" for process in served]

    def losses(self, run: Launched, cut_off: Sequence[str]) -> tuple[int, int]:
        """Records of the hosts' journals that the run directory lacks, and those that it has
        twice."""
        folder = recorded(run)
        if folder is None:
            return 0, 0
        kept = Counter(recorded_lines(folder))
        launched = launched_on(kept)
        lost = 0
        for index, host in enumerate(self.hosts.values()):
            lines = journal(self.workdir(host) / "runs" / folder.name / str(index))
            assert lines or index not in launched, (
                f"no journal is found of {host.name}, on which ranks were launched"
            )
            known = [number for number, line in enumerate(lines) if line in kept]
            lost += sum(line not in kept for line in lines[: known[-1] + 1 if known else 0])
            if host.name not in cut_off:
                lost += len(lines) - (known[-1] + 1 if known else 0)
        return lost, sum(kept.values()) - len(kept)

    def workdir(self, host: Host) -> Path:
        """Where this process sees the work folder of a host."""
        return self.places.get(host.name, Path(host.workdir))


@dataclass(frozen=True)
class Training:
    """A run under way: its agents' pids by host, its ranks' by number."""

    run: Launched
    agents: dict[str, int]
    ranks: dict[int, int]

    def go_on(self, seconds: float) -> None:
        """Let it go on for so long, and read what it says: a pipe that is full would hold up the
        launcher."""
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            self.run.events("hostsample")


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    code: int
    summary: dict[str, Any]
    said: str
    left: list[str]
    lost: int
    twice: int

    @property
    def verdict(self) -> str:
        """In a word, as the summary has it; the launcher's signal or exit code where there is
        none."""
        return str(
            self.summary.get("verdict")
            or (f"(signal {-self.code})" if self.code < 0 else f"(code {self.code})")
        )

    @property
    def cause(self) -> dict[str, Any]:
        """The cause, as the summary has it."""
        return self.summary.get("cause") or {}

    def named(self, expected: Expected) -> str:
        """The cause as it was told, cut short for a table; "-" where there was none to name."""
        text = str(self.cause.get("text") or _reason(self.said) or "-")
        return text if len(text) <= 60 else f"{text[:59]}…"

    def hold(self, expected: Expected) -> None:
        """Hold it to what is expected."""
        assert (self.code, self.verdict) == (expected.code, expected.verdict), self.said
        assert "Traceback" not in self.said.partition("last output of rank ")[0]
        text = str(self.cause.get("text", "")) or self.said
        assert all(word in text for word in expected.says), text
        if expected.host:
            assert (self.cause["host"], self.cause["rank"]) == (expected.host, expected.rank), (
                self.said
            )
            assert "cause: " in self.said
        assert not self.left, self.left
        assert (self.lost, self.twice) == (0, 0), (
            f"{self.lost} records are lost, {self.twice} are there twice"
        )


def _reason(said: str) -> str:
    """Why a run was stopped, or never started."""
    lines = [line.removeprefix("rankboard: ") for line in said.splitlines()]
    stopped = [line.partition(": ")[2] for line in lines if line.startswith("stopped after")]
    return next(iter(stopped), "")


def summary(run: Launched) -> dict[str, Any]:
    """The summary of a run, empty where the launcher could not write one."""
    folder = recorded(run)
    path = folder / "summary.json" if folder else None
    return dict(json.loads(path.read_text())) if path and path.exists() else {}


def recorded(run: Launched) -> Path | None:
    """The run directory, if there is one."""
    return next((run.folder / "runs").glob("[!.]*"), None)


def recorded_lines(folder: Path) -> list[bytes]:
    """The records of a run as their agents wrote them."""
    path = folder / "events.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    with closing(ChunkReader(folder)) as chunks:
        return [chunks.restore(line) for line in lines]


def launched_on(lines: Iterable[bytes]) -> set[int]:
    """The numbers of the hosts that say in these records that they have launched ranks."""
    records = [events.decode(line) for line in lines if b'"launched"' in line]
    return {
        record.host
        for record in records
        if record and isinstance(record.event, host_events.Launched)
    }


def journal(folder: Path) -> list[bytes]:
    """All records that a host has of a run, a line each."""
    return [
        line for path in sorted(folder.glob("*.journal")) for line in path.read_bytes().splitlines()
    ]
