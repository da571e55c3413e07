"""What screens ask of the app, so that no screen opens another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.events import Event
from textual.message import Message

from remote.cluster.hosts import Cluster
from remote.plan.plan import Plan, Policy, Script
from remote.record.step_notes import StepNote
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from training.job import Job

if TYPE_CHECKING:  # reading studies takes libraries that other dashboards do without
    from remote.study.length import TrainingLength


class ScreenRequest(Event):
    """The user asks for another screen. The app does nothing where the screen has changed since:
    keys may come twice."""


@dataclass(frozen=True)
class RunRequest:
    """What is to run where, and what happens after failures."""

    cluster: Cluster
    """The hosts that are chosen."""
    work: Job | Script
    policy: Policy


@dataclass
class StartRun(ScreenRequest):
    """Start this run."""

    request: RunRequest


@dataclass
class CheckHosts(Message):
    """Check whether the hosts are ready for this run, and start nothing."""

    request: RunRequest


@dataclass
class ShowRun(ScreenRequest):
    """Show the run under way of a study."""

    name: str


@dataclass
class RetryStudy(Message):
    """Make the runs of the study that failed or are missing."""

    name: str


@dataclass
class RepeatStudy(Message):
    """Make the whole study again with runs of another length. Its results are kept under another
    name."""

    name: str
    length: TrainingLength
    words: list[str]
    """The words of the command that does it."""


@dataclass
class ShowCell(ScreenRequest):
    """Show the runs of a cell of a study."""

    key: str


@dataclass
class CompareRuns(ScreenRequest):
    """Compare the runs that are recorded in these folders, two to eight."""

    folders: tuple[Path, ...]


class CompareRun(ScreenRequest):
    """Compare the run with another one, which the user chooses."""


@dataclass
class NewRun(ScreenRequest):
    """Show the launch form again, at this `field` and with another value in it, if they are
    given."""

    field: str = ""
    value: float | None = None


class ShowChecks(ScreenRequest):
    """Show what the checks of the hosts have found: those of the run, or of the form."""


class ShowStacks(ScreenRequest):
    """Show where every rank of the run is."""


@dataclass
class CopyCommand(Message):
    """Copy the command line that starts such a run.

    `run` tells how a lab was limited; `without` leaves a host out.
    """

    plan: Plan
    run: RunState | None = None
    without: str = ""


@dataclass
class ReadCommand(Message):
    """Return the command line that starts such a run. `run` tells how a lab was limited."""

    plan: Plan
    run: RunState
    take: Callable[[str], None]


@dataclass
class CopyText(Message):
    """Copy this text, and show it."""

    text: str


@dataclass
class SaveText(Message):
    """Write this text to a file of this name in the folder of this run, and tell the user so, after
    what was `done`."""

    run: str
    name: str
    text: str
    done: str


class GoHome(ScreenRequest):
    """Show the list of all runs."""


@dataclass
class OpenRun(ScreenRequest):
    """Open the run of this name."""

    name: str


@dataclass
class ResumeRun(ScreenRequest):
    """Show the launch form for a run that goes on from this one."""

    name: str


@dataclass
class RepeatRun(ScreenRequest):
    """Show the launch form with the settings of this run, but with another seed."""

    name: str
    seed: int
    """Of a script, it is not used: it has no settings of ours."""


@dataclass
class OpenStudy(ScreenRequest):
    """Show the cells of the recorded study of this name."""

    name: str


@dataclass
class OtherRun(Message):
    """Show the next of the opened runs, or (-1) the one before."""

    step: int


@dataclass
class ShowRank(ScreenRequest):
    """Show all that is known of a rank of the run."""

    rank: int


@dataclass
class PinRun(Message):
    """Pin this run as the baseline of all charts, or take its pin away."""

    folder: Path | None = None
    """The folder of the run; None for the run on the screen."""
    done: Callable[[], object] | None = None
    """Called once that is done."""


@dataclass
class NoteStep(Message):
    """Write a note at a step of the run on the screen, or remove it if the text is empty."""

    step: int
    text: str
    done: Callable[[], object]
    """Called once that is done."""


@dataclass
class ReadStepNotes(Message):
    """Read the notes at steps of the run on the screen."""

    take: Callable[[tuple[StepNote, ...]], object]


@dataclass
class ReadBaseline(Message):
    """Read the run that is pinned: `take` gets what a person calls it and its state, after a while;
    "" and None where there is none."""

    take: Callable[[str, RunState | None], object]


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
