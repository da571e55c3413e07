"""What screens ask of the app, so that no screen opens another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from textual.message import Message

from remote.cluster.hosts import Cluster
from remote.plan.plan import Policy
from training.job import Job


@dataclass
class StartRun(Message):
    """Start this job on these hosts, with this policy."""

    cluster: Cluster
    job: Job
    policy: Policy


@dataclass
class CheckHosts(Message):
    """Check whether these hosts are ready for this job, and start nothing."""

    cluster: Cluster
    job: Job
    policy: Policy


@dataclass
class ShowRun(Message):
    """Show the run under way of a study."""

    name: str


@dataclass
class ShowCell(Message):
    """Show the runs of a cell of a study."""

    key: str


@dataclass
class CompareRuns(Message):
    """Compare the runs that are recorded in these folders, two to eight."""

    folders: tuple[Path, ...]


class NewRun(Message):
    """Show the launch form again."""


class ShowChecks(Message):
    """Show what the checks of the hosts have found: those of the run, or of the form."""


class ShowStacks(Message):
    """Show where every rank of the run is."""


class ViewChanged(Message):
    """The user has changed what a chart shows."""
