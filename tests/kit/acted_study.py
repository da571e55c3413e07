"""A study whose runs are acted out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote.cluster.hosts import Cluster
from remote.events import Stopping
from remote.host_commands.kept_plan import KeptPlan
from remote.plan.plan import Plan, PlanError
from remote.study.folder import StudyCall, StudyFolder
from remote.study.runner import StudyRunner
from remote.study.study import CellPlace
from remote.study.study_file import parse_study
from tests.kit.acted import ActedSession, cluster, make_plan
from training.job import Job
from training.wire.events import SESSION

TEXT = """
title = "Three ways"
question = "Which is fastest?"
repetitions = 2
[job]
model = "lenet5"
dataset = "digits"
steps = 40
[axes]
method = [
    { label = "all_reduce", sync = "all_reduce" },
    { label = "a ring of two", sync = "ring" },
    { label = "ddp", sync = "ddp" },
]
nodes = [1, 2]
[compare]
baseline = { method = "all_reduce", nodes = 1 }
"""


@dataclass(frozen=True)
class ActedLauncher:
    """Begins runs that a test acts out: the newest is the last of `sessions`. A job with a method
    of `refused` cannot begin, for that `reason`."""

    runs_dir: Path
    transport: Any = None
    sessions: list[ActedSession] = field(default_factory=list)
    refused: Collection[str] = ()
    reason: str = ""

    def plan(self, chosen: Cluster, job: Job) -> Plan:
        if job.sync in self.refused:
            raise PlanError(self.reason or f"{job.sync} does not work here")
        return make_plan(chosen, job)

    def begin(self, plan: Plan) -> ActedSession:
        self.sessions.append(ActedSession(plan))
        return self.sessions[-1]

    def attach(self, kept: KeptPlan) -> ActedSession:
        return self.begin(kept.plan)


class ActedPlaces:
    """As many hosts as a place wants."""

    def reach(self, place: CellPlace, most_nodes: int = 0) -> tuple[Cluster, None]:
        return cluster(place.nodes, place.processes), None


def acted_runner(
    runs_dir: Path, text: str = TEXT, refused: Collection[str] = (), reason: str = ""
) -> StudyRunner:
    """A study of which nothing has been run."""
    launcher: Any = ActedLauncher(runs_dir, refused=refused, reason=reason)
    places: Any = ActedPlaces()
    folder = StudyFolder.of(runs_dir, "three-ways")
    folder.keep(StudyCall(text, {}, {}, quick=False))
    return StudyRunner(parse_study("three-ways", text), folder, places, launcher)


def stopped(session: ActedSession) -> None:
    """Act the end of a run that was told to stop."""
    session.say(SESSION, Stopping("enough", True))
    session.close()


def finish(session: ActedSession, seconds: float, steps: int = 40) -> None:
    """Act the whole run, with iterations of so many seconds."""
    session.start(steps)
    session.steps(1, steps, seconds)
    session.finish(steps, 1)
