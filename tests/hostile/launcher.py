"""The launcher under test, with bounds on its time and memory: as the real command, or a session in
this process."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from remote.cluster.hosts import Host
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan, Policy
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.session.session import Session
from remote.session.times import Times
from remote.transport import Transport
from tests.kit.launches import RANKBOARD
from tests.kit.wait import GUARD
from training.job import Job
from training.wire.events import Record

MIB = 2**20
MEMORY = 300 * MIB
"""What the launcher may take, whatever comes from a host or a file."""
TIMES = Times(lease=0.1, tick=0.02, evidence=0.1, closing=2.0, away=1.0, moment=0.1)
"""As the real ones, but sooner."""
FATAL = 1 << 30
"""Bytes at which the command is killed, so that a fault does not fill this machine."""


def peak(pid: int | str = "self") -> int:
    """The most bytes that a process has had in memory since it began, or since `forget_peak`; 0
    once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) * 1024 if found else 0


@dataclass
class Growth:
    """How many bytes this process has grown by at the most."""

    bytes: int = 0


@contextmanager
def measured() -> Iterator[Growth]:
    """Measures by how much this process grows at the most."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what there is
    before, growth = peak(), Growth()
    yield growth
    growth.bytes = peak() - before


# The command --------------------------------------------------------------------------------------


@dataclass
class Command:
    """A `rankboard …` that ends by itself, or is killed: `code`, what it printed, and its peak of
    memory in bytes."""

    code: int
    out: str
    err: str
    memory: int
    seconds: float

    @property
    def said(self) -> str:
        """All that it printed."""
        return self.out + self.err

    def holds(self) -> Command:
        """What must hold whatever comes: no traceback, no raw control character, and the bound on
        memory."""
        assert "Traceback" not in self.said, self.said[-3000:]
        assert not [one for one in self.said if one != "\n" and not one.isprintable()], ascii(
            self.said[-3000:]
        )
        assert self.code in (0, 1, 2, 3, 130), (self.code, self.said[-3000:])
        assert self.memory < MEMORY
        return self


def rankboard(
    folder: Path,
    *words: str,
    home: Path,
    seconds: float = 40.0,
    then: Callable[[int], None] | None = None,
    **env: str,
) -> Command:
    """Run `rankboard` with these words in the folder, for so many seconds at the most. `then` is
    called with its pid in a thread, to send it signals."""
    environ = {**os.environ, "HOME": str(home), **env}
    environ.pop("SSH_AUTH_SOCK", None)
    began = time.monotonic()
    files = folder / "stdout", folder / "stderr"
    with files[0].open("w") as out, files[1].open("w") as err:
        process = subprocess.Popen(
            [RANKBOARD, *words],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        if then:
            threading.Thread(target=then, args=(process.pid,), daemon=True).start()
        most = 0
        while process.poll() is None:
            most = max(most, peak(process.pid))
            if most > FATAL or time.monotonic() - began > seconds:
                process.kill()
                process.wait()
                said = files[1].read_text(errors="replace")[-2000:]
                raise AssertionError(
                    f"killed after {time.monotonic() - began:.0f} s with {most / MIB:.0f} MiB: "
                    f"{said}"
                )
            time.sleep(0.02)
    out, err = (path.read_text(errors="surrogateescape") for path in files)
    return Command(process.returncode, out, err, most, time.monotonic() - began)


# A session ----------------------------------------------------------------------------------------


@dataclass
class Watched:
    """A session, and what it has brought."""

    session: Session
    records: list[Record] = field(default_factory=list)
    over: bool = False

    @property
    def state(self) -> RunState:
        """What became of the run, so far."""
        return self.session.state

    @property
    def told(self) -> str:
        """All narration."""
        return "\n".join(note.text for note in self.state.log.notes)


def plan(hosts: tuple[Host, ...], **policy: object) -> Plan:
    """A plan of a run on these hosts."""
    return Plan("a-run", hosts, Job(), Policy(**policy))  # type: ignore[arg-type]


def watch(
    session: Session, until: Callable[[Watched], bool] | None = None, seconds: float = GUARD
) -> Watched:
    """Take the session's batches to the end, in a thread; a person stops it once `until` holds.
    Fails where it hangs, or ends with an exception."""
    watched = Watched(session)
    errors: list[BaseException] = []

    def listen() -> None:
        stopped = False
        try:
            for batch in session.batches():
                watched.records += batch
                if until and not stopped and until(watched):
                    stopped = True
                    session.stop()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
        watched.over = True

    thread = threading.Thread(target=listen, name="session", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    assert watched.over, f"the session hangs: {watched.told[-2000:]}"
    return watched


def session(
    transport: Transport,
    runs_dir: Path,
    hosts: tuple[Host, ...],
    *,
    limits: Limits = LIMITS,
    **policy: object,
) -> Session:
    """A session of a new run."""
    planned = plan(hosts, **policy)
    return Session(planned, transport, Recorder(runs_dir, planned), times=TIMES, limits=limits)
