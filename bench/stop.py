"""How long stopping takes: 8 ranks on 4 hosts over SSH, on addresses of one sshd.

Stops rankboard's own ranks in the middle of a job, a program that ends on TERM, and one that
ignores TERM and is killed after its grace, which is the same for all ranks. Prints for each the
median seconds from the order until the last rank has ended, and until all agents have ended; the
bounds last.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from parts.loopback import Loopback, loopback

from remote.plan.plan import Plan, Script
from remote.record.write import Recorder
from remote.session.session import Session
from remote.transport.ssh.transport import SshTransport
from training.job import Job
from training.wire.commands import Stop
from training.wire.events import Record
from training.wire.host_events import Exited, OutputText
from training.wire.step_block import StepBlock

HOSTS, SLOTS = 4, 2
ROUNDS = 5
SECOND = 1.0
"""What all may take besides the grace."""
GRACE = Stop().grace
IGNORES = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
OBEYS = "echo ready; exec sleep 1000"
KINDS: dict[str, tuple[Job | Script, float]] = {
    "our own ranks": (Job(steps=1_000_000), SECOND),
    "programs that obey TERM": (Script(("sh", "-c", OBEYS)), SECOND),
    "programs that ignore TERM": (Script(("sh", "-c", IGNORES)), GRACE + SECOND),
}


@dataclass(frozen=True)
class Stopped:
    """Seconds from the order to stop until the last rank had ended, and until the session was
    over."""

    ranks: float
    all: float


def stop(server: Loopback, work: Job | Script, run: str) -> Stopped:
    """Start the work, stop it when every rank is at it, and time that."""
    plan = Plan(run, server.hosts(SLOTS), work)
    session = Session(plan, SshTransport(), Recorder(server.folder / "runs", plan))
    at_it, ended, ordered, last = set[int](), set[int](), 0.0, 0.0
    for batch in session.batches():
        at_it |= {rank for rank in map(ready, batch) if rank is not None}
        if len(at_it) == plan.world_size and not ordered:
            ordered = time.perf_counter()
            session.stop()
        if found := {record.event.rank for record in batch if isinstance(record.event, Exited)}:
            ended |= found
            last = time.perf_counter()
    if not ordered or len(ended) < plan.world_size:
        raise SystemExit(
            f"the run failed: {session.state.cause}; its records are in "
            f"{server.folder / 'runs' / run}"
        )
    return Stopped(last - ordered, time.perf_counter() - ordered)


def ready(record: Record) -> int | None:
    """The rank that this shows at its work."""
    event = record.event
    at_it = isinstance(event, StepBlock) or (
        isinstance(event, OutputText) and "ready" in event.text.splitlines()
    )
    return (
        event.rank
        if at_it and isinstance(event, (StepBlock, OutputText)) and event.rank >= 0
        else None
    )


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    number = parser.parse_args().rounds
    taken: dict[str, list[Stopped]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, loopback(Path(folder), HOSTS) as server:
        for turn in range(number):
            for index, (kind, (work, _)) in enumerate(KINDS.items()):
                one = stop(server, work, f"stop-{turn}-{index}")
                taken[kind].append(one)
                print(
                    f"round {turn + 1}, {kind}: ranks {one.ranks:.3f} s, all {one.all:.3f} s",
                    flush=True,
                )
    for kind, (_, bound) in KINDS.items():
        ranks, all_ = (
            statistics.median(getattr(one, name) for one in taken[kind])
            for name in ("ranks", "all")
        )
        print(
            f"{kind}: {HOSTS * SLOTS} ranks ended after {ranks:.3f} s, all after {all_:.3f} s "
            f"(bound {bound:g} s)"
        )


if __name__ == "__main__":
    main()
