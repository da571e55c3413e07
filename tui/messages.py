"""What screens ask of the app."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from remote.cluster.hosts import Cluster
from training.job import Job


@dataclass
class StartRun(Message):
    """Start this job on these hosts."""

    cluster: Cluster
    job: Job


@dataclass
class CheckHosts(Message):
    """Check whether these hosts are fit for this job, and start nothing."""

    cluster: Cluster
    job: Job


class NewRun(Message):
    """Back to the launch form."""
