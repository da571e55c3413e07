"""from the last step of the last rank to the first step
of all ranks of the next run, with hosts kept warm and without.

Short runs follow each other: on four hosts of this machine, as with `--local 4`; on those of a lab,
as with `--link`; and on four hosts over SSH at addresses of one sshd. Warm and cold sequences take
turns. Prints for both the median after each stage, and the ratio of the whole last.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from parts.loopback import loopback

from remote.cluster.hosts import Cluster, Host
from remote.events import Prepared, Starting
from remote.lab.lab import Lab
from remote.lab.spec import parse
from remote.launch import Launcher
from remote.plan.plan import Policy
from remote.transport import Enter, Transport
from remote.transport.registry import Transports
from remote.transport.warm import WarmTransport
from training.job import Job
from training.wire.enums import Phase
from training.wire.events import Event, split_steps
from training.wire.host_events import AgentEnded, Exited, Hello, Spawned
from training.wire.rank_events import Entered, Started, StepFinished

HOSTS, STEPS, LINK = 4, 3, "1gbit"
JOB = Job(model="lenet5", dataset="digits", steps=STEPS, sync="ddp")
BEFORE = "last step"
STAGES = ("exited", "ended", "over", "facts", "checked", "spawned", "loading", "meet", "first step")
"""What follows the last step of a run, up to the first of the next, each on all hosts or ranks."""


def stage(event: Event) -> str:
    """The stage that an event of one host or rank belongs to."""
    match event:
        case StepFinished(step=1):
            return "first step"
        case StepFinished(step=number) if number == STEPS:
            return BEFORE
        case Exited():
            return "exited"
        case AgentEnded():
            return "ended"
        case Hello():
            return "facts"
        case Prepared() | Starting():
            return "checked"
        case Spawned():
            return "spawned"
        case Entered(phase=Phase.LOADING):
            return "loading"
        case Started():
            return "meet"
    return ""


def run(launcher: Launcher, cluster: Cluster) -> dict[str, float]:
    """When each stage of a run was over, and the run itself."""
    session = launcher.begin(launcher.plan(cluster, JOB))
    times: dict[str, float] = {}
    for records in session.batches():
        for record in chain.from_iterable(map(split_steps, records)):
            times[stage(record.event)] = time.perf_counter()
    times["over"] = time.perf_counter()
    if BEFORE not in times:
        raise SystemExit(f"the run failed: {session.state.cause}")
    return times


def sequence(
    transport: Transport, hosts: tuple[Host, ...], count: int
) -> Iterator[dict[str, float]]:
    """Make runs one after the other. Gives the seconds after the last step of one at which each
    stage was over; the first two runs make the files and the page cache warm."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = Launcher(transport, Path(folder), Policy(fetch=False))
        before: dict[str, float] = {}
        for number in range(count + 2):
            now = run(launcher, Cluster("bench", hosts))
            if number > 1:
                both = {name: (now if name in STAGES[3:] else before)[name] for name in STAGES}
                yield {name: when - before[BEFORE] for name, when in both.items()}
            before = now


def compare(
    name: str, hosts: tuple[Host, ...], rounds: int, count: int, enter: Enter = lambda _: ()
) -> None:
    """Measure both in turns, and print them."""
    found: dict[str, dict[str, list[float]]] = {
        kind: defaultdict(list) for kind in ("cold", "warm")
    }
    for turn in range(rounds):
        for kind in sorted(found, reverse=bool(turn % 2)):
            with closing(WarmTransport(Transports(hosts, enter))) as warm:
                transport = warm if kind == "warm" else Transports(hosts, enter)
                for gap in sequence(transport, hosts, count):
                    for part, seconds in gap.items():
                        found[kind][part].append(seconds)
            so_far = statistics.median(found[kind][STAGES[-1]])
            print(f"{name}, round {turn + 1}, {kind}: median so far {so_far:.2f} s", flush=True)
    print(f"{name}: seconds after the last step    cold    warm")
    for part in STAGES:
        cold, warmed = (statistics.median(found[kind][part]) for kind in found)
        print(f"  {part:<36} {cold:7.2f} {warmed:7.2f}")
    whole = {kind: parts[STAGES[-1]] for kind, parts in found.items()}
    for kind, all_ in whole.items():
        middle, low, high = statistics.median(all_), min(all_), max(all_)
        print(f"{name}, {kind}: median {middle:.2f} s, {low:.2f} to {high:.2f} s")
    ratio = statistics.median(whole["warm"]) / statistics.median(whole["cold"])
    print(f"{name}, between two runs, warm / cold: {ratio:.2f}", flush=True)


def main() -> None:
    """Measure here, in a lab, and over SSH."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=("local", "lab", "ssh"))
    given = parser.parse_args()
    if given.only in (None, "local"):
        here = tuple(
            Host(f"local{index}", "127.0.0.1", python=sys.executable, transport="local")
            for index in range(1, HOSTS + 1)
        )
        compare("--local 4", here, given.rounds, given.runs)
    if given.only in (None, "lab"):
        with Lab.start(parse(HOSTS, LINK)) as lab:
            name = f"--local 4 --link {LINK}"
            compare(name, lab.hosts, given.rounds, given.runs, lab.enter)
    if given.only in (None, "ssh"):
        with tempfile.TemporaryDirectory() as folder, loopback(Path(folder), HOSTS) as server:
            compare("4 hosts over SSH", server.hosts(), given.rounds, given.runs)


if __name__ == "__main__":
    main()
