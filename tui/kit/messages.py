"""What screens ask of the app, so that no screen opens another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from textual.events import Event
from textual.message import Message

from remote.cluster.hosts import Cluster
from remote.plan.plan import Policy, Script
from remote.run.series.curves import Curves
from training.job import Job


class ScreenAsked(Event):
    """The user asks for another screen. The app does nothing where the screen has changed since:
    keys may come twice."""


@dataclass
class StartRun(ScreenAsked):
    """Start this work on these hosts, with this policy."""

    cluster: Cluster
    work: Job | Script
    policy: Policy


@dataclass
class CheckHosts(Message):
    """Check whether these hosts are ready for this work, and start nothing."""

    cluster: Cluster
    work: Job | Script
    policy: Policy


@dataclass
class ShowRun(ScreenAsked):
    """Show the run under way of a study."""

    name: str


@dataclass
class ShowCell(ScreenAsked):
    """Show the runs of a cell of a study."""

    key: str


@dataclass
class CompareRuns(ScreenAsked):
    """Compare the runs that are recorded in these folders, two to eight."""

    folders: tuple[Path, ...]


class CompareRun(ScreenAsked):
    """Compare the run with another one, which the user chooses."""


class NewRun(ScreenAsked):
    """Show the launch form again."""


class ShowChecks(ScreenAsked):
    """Show what the checks of the hosts have found: those of the run, or of the form."""


class ShowStacks(ScreenAsked):
    """Show where every rank of the run is."""


@dataclass
class KeepText(Message):
    """Write this text to a file of this name in the folder of this run, and tell the user so, after
    what was `done`."""

    run: str
    name: str
    text: str
    done: str


class GoHome(ScreenAsked):
    """Show the list of all runs."""


@dataclass
class OpenRun(ScreenAsked):
    """Open the run of this name."""

    name: str


@dataclass
class ResumeRun(ScreenAsked):
    """Show the launch form for a run that goes on from this one."""

    name: str


@dataclass
class OpenStudy(ScreenAsked):
    """Show the cells of the recorded study of this name."""

    name: str


@dataclass
class OtherRun(Message):
    """Show the next of the opened runs, or (-1) the one before."""

    step: int


@dataclass
class ShowRank(ScreenAsked):
    """Show all that is known of a rank of the run."""

    rank: int


@dataclass
class SaveChart(Message):
    """Save a chart in the folder of this run: `write` takes a folder and the name of the files
    without their endings, and returns the files that it has written, after a while."""

    run: str
    name: str
    write: Callable[[Path, str], list[Path]]


@dataclass
class ReadRecord(Message):
    """Read the record of the run of this name again: `read` takes its folder, and `take` what comes
    of it after a while; None where it cannot be read."""

    name: str
    read: Callable[[Path], Curves]
    take: Callable[[Curves | None], None]
