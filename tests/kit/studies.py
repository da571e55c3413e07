"""Recorded studies for the tests: their directory, their runs and their journal, without running
anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from remote.events import SessionClosed
from remote.metrics.conditions import find_conditions
from remote.plan.plan import Plan
from remote.study.folder import RunBegun, RunEnded, StudyCall, StudyFolder, TrialOutcome
from remote.study.study import Study, Trial
from remote.study.study_file import parse_study
from tests.kit.histories import History, plan
from tests.kit.recorded import recorded
from training.wire.host_events import Hello, HostSample
from training.wire.rank_events import Evaluated, StepFinished

BYTES = 61_706 * 4
"""The gradients of the model, as `History.training` has it."""


def history(
    trial: Trial,
    seconds: float,
    name: str,
    steps: int = 12,
    threads: int = 1,
    on_hosts: Callable[[Plan], Plan] = lambda plan: plan,
) -> History:
    """A run of a trial with so many threads per rank: each step took `seconds`, of which 60% went
    into computing and 30% into waiting; rank 0 is the last one at each. Its loss falls from 2 in
    the same way in all runs."""
    of = History(on_hosts(replace(plan(trial.cell.place.nodes), run=name, work=trial.work)))
    hosts = range(len(of.plan.hosts))
    for host in hosts:
        of.say(host, hello(of.plan.hosts[host].name, host))
    of.training(threads=threads)
    for step in range(1, steps + 1):
        of.now += seconds
        for rank in hosts:
            of.rank(
                rank,
                StepFinished(
                    rank,
                    1,
                    step,
                    2.0 / step,
                    seconds,
                    data=0.1 * seconds,
                    compute=0.6 * seconds,
                    sync=(0.3 if rank else 0.1) * seconds,
                    ready=(0.6 if rank else 0.8) * seconds,
                    samples=16,
                    correct=4,
                    bytes_sent=BYTES if len(of.plan.hosts) > 1 else 0,
                ),
            )
            of.say(rank, HostSample((50.0, 70.0), 3 * 2**30, 8 * 2**30, 10**6, 10**6))
    of.rank(0, Evaluated(0, 1, steps, 0.5, 0.75, 4, 0.1, ((2, 0), (1, 1)), classes=CLASSES))
    return of.done(*hosts).session(SessionClosed())


CLASSES = ("cat", "dog")


def hello(name: str, host: int) -> Hello:
    return Hello(
        *(name, "user", 1, "3.11.9", "/usr/bin/python3", "Linux-6.1", f"boot-{host}", 2.0, 2**33),
        torch="2.14.1",
        route_address=f"10.10.1.{host + 1}",
        route_interface="eth0",
    )


def study(
    runs_dir: Path,
    text: str,
    seconds: Callable[[Trial], float],
    failed: Callable[[Trial], str] = lambda trial: "",
    places: dict[str, object] | None = None,
    threads: Callable[[Trial], int] = lambda trial: 1,
    name: str = "small",
    given: dict[str, object] | None = None,
    quick: bool = False,
    num_hosts: int = 0,
    on_hosts: Callable[[Plan], Plan] = lambda plan: plan,
) -> tuple[StudyFolder, Study]:
    """A study that was run: each trial took `seconds` per step, or failed of that cause. Its ranks
    had so many `threads`. Cells without nodes ran on `num_hosts`. `given` are the settings of its
    command line; `on_hosts` changes the plans of its runs."""
    folder = StudyFolder.of(runs_dir, name)
    found = parse_study(folder.name, text, given, quick=quick, num_hosts=num_hosts)
    folder.keep(StudyCall(text, given or {}, places or {}, quick=quick, num_hosts=num_hosts))
    for number, trial in enumerate(found.trials()):
        run = f"20261123-{number:06}-{getattr(trial.work, 'sync', 'script')}"
        run += "" if name == "small" else f"-{name}"
        folder.write(RunBegun(trial.key, run))
        if cause := failed(trial):
            folder.write(RunEnded(trial.key, run, TrialOutcome.FAILED, cause=cause))
            continue
        of = history(trial, seconds(trial), run, threads=threads(trial), on_hosts=on_hosts)
        recorded(runs_dir, of)
        ended = RunEnded(trial.key, run, TrialOutcome.COUNTED, seconds(trial))
        folder.write(replace(ended, conditions=find_conditions(of.state())))
    return folder, found
