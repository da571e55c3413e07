"""The runs that are recorded here and that live on hosts, and what one does with them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from remote.cluster.hosts import Cluster, Host, select
from remote.cluster.load import has_usual, load, load_usual
from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.plan.plan import Plan, PlanError, Policy, Script, with_seed
from remote.plan.serialize import OtherFormat
from remote.record import index, marks, read, resume
from remote.record.alike import SimilarRun, find_similar, is_of_same_kind
from remote.record.checkpoints import saved_step
from remote.record.entry import Entry
from remote.record.events_file import RunFolderError
from remote.record.files import is_folder
from remote.record.layout import STUDY
from remote.record.lock import launcher
from remote.record.loss_course import LossCourse, read_loss_course, read_loss_points
from remote.transport.registry import Transports, is_here
from training.job import Job
from tui.flags.recorded import find_here, find_kept
from tui.flags.which_run import find_run
from tui.kit.replay import Replay
from tui.kit.run_session import RunSession

if TYPE_CHECKING:  # all that asks hosts is loaded once they are asked
    from remote.host_commands.listed_runs import ListedRun
    from remote.host_commands.pruning import Removable
    from remote.study.folder import StudyFolder
    from remote.study.progress import StudyProgress

YOUNG = 5.0
"""Seconds for which a change of the folder is young: a run that was added may lack its plan yet."""
READ_EVERY = 30.0
"""Seconds after which the folder is read although it has not changed, as a run in it may have: by a
note, or by an agent that has outlived its launcher."""
PREVIEW_POINTS = 80
"""Places at which the loss of a chosen run is read."""


@dataclass(frozen=True)
class Listed:
    """What is recorded in a folder."""

    runs: tuple[Entry, ...] = ()
    """The oldest first."""
    studies: tuple[StudyProgress, ...] = ()
    problems: tuple[str, ...] = ()
    """A line for each file that cannot be read."""

    def name_runs(self, *verdicts: str) -> set[str]:
        """Return the names of the runs with one of these verdicts; without any, of all."""
        return {run.name for run in self.runs if not verdicts or run.verdict in verdicts}


@dataclass(frozen=True)
class Answered:
    """What the hosts say, by the names of runs."""

    live: Mapping[str, ListedRun] = field(default_factory=dict)
    """The runs that are live there."""
    problems: tuple[str, ...] = ()
    """Why hosts did not answer."""
    asked_at: float = 0.0
    """The Unix time of the question."""
    ended: Mapping[str, ListedRun] = field(default_factory=dict)
    """The runs of which the hosts were asked by name, and that are live nowhere."""

    @property
    def is_silent(self) -> bool:
        """Return True if there is nothing to show of it."""
        return not (self.live or self.ended or self.problems)


@dataclass(frozen=True)
class RunDetails:
    """What is read of a run or study when it is chosen."""

    course: LossCourse = field(default_factory=LossCourse)
    checkpoint_step: int = 0
    """The step of the newest checkpoint; 0 if none is known."""
    reference: SimilarRun | None = None
    """The run that is pinned, else the other run that is most like it."""
    answer: Sequence[str] = ()
    """What came out of a study, a line each."""
    output: Sequence[str] = ()
    """The last lines that the rank printed because of which the run failed."""


@dataclass
class RecordedStudy:
    """A study as it is recorded, in place of a `Runner`: nothing is under way."""

    progress: StudyProgress
    runs_dir: Path
    """The folder that its runs lie in."""
    changes = 0
    current = None
    is_refused = False

    def __post_init__(self) -> None:
        # Screens of a study hold the lock of its runner while they copy the progress. Nobody else
        # takes this one.
        self.lock = threading.Lock()
        self.study = self.progress.study

    @property
    def is_over(self) -> bool:
        """Return False while another process makes its runs."""
        return not self.progress.running_cell

    @property
    def is_stopped(self) -> bool:
        """Return True if runs are missing."""
        return self.is_over and self.progress.num_settled < len(self.study.trials())


@dataclass(frozen=True)
class History:
    """The runs of a folder, and of the hosts of a file; `hosts_file` is None for the usual one."""

    runs_dir: Path
    hosts_file: Path | None = None
    transports: Transports = field(default_factory=Transports)

    @property
    def shown_dir(self) -> str:
        """Return the folder as a person would write it."""
        path = os.path.relpath(self.runs_dir)
        return str(self.runs_dir) if path.startswith("..") else os.path.join(".", path)

    @property
    def changed_at(self) -> float:
        """Return when a run was last added to the folder or removed, as a Unix time; 0 if there is
        no such folder."""
        try:
            return self.runs_dir.stat().st_mtime
        except OSError:
            return 0.0

    def recorded(self) -> Listed:
        """Read what is recorded."""
        from remote.study.folder import StudyFolder
        from remote.study.study import StudyError

        problems = list[str]()
        runs = index.entries(
            self.runs_dir, lambda name, error: problems.append(f"{name}: {error.strerror}")
        )
        studies: list[StudyProgress] = []
        for path in sorted(self.runs_dir.glob(f"[!.]*{STUDY}")):
            # One broken study must not hide the others.
            try:
                studies.append(_progress(StudyFolder(path)))
            except (StudyError, OSError) as error:
                problems.append(f"{path.name}: {error}")
        return Listed(runs, tuple(studies), tuple(problems))

    def ask(self, unknown: Collection[str]) -> Answered:
        """Ask the hosts which runs are live, and what became of these runs, of which no launcher
        here knows the end; of these, ask also this machine and their own hosts.
        Raises: HostsError."""
        from remote.host_commands.inventory import take_inventory

        hosts = self._hosts()
        # Before the question, since a run may end while the hosts answer: its record is newer then.
        asked_at = time.time()
        inventory = take_inventory(
            self.transports,
            hosts,
            self.runs_dir,
            unknown,
            asks_left_hosts=True,
            figures=True,
            only_live=True,
        )
        is_complete = not (inventory.problems or inventory.gone)
        live = {run.name: run for run in inventory.runs if run.live}
        ended = {
            run.name: run for run in inventory.runs if _has_ended(run, is_complete=is_complete)
        }
        return Answered(live, tuple(inventory.problems), asked_at, ended)

    def study(self, name: str) -> RecordedStudy:
        """Return a study that was started. Raises: StudyError, OSError."""
        from remote.study.folder import StudyFolder

        return RecordedStudy(_progress(StudyFolder.of(self.runs_dir, name)), self.runs_dir)

    def read_details(self, run: Entry, runs: Sequence[Entry]) -> RunDetails:
        """Read what is shown of a recorded run, one of these, when it is chosen."""
        # Loaded here, in a thread: the first drawing of a chart need not wait for numpy.
        import tui.charts.chart  # noqa: F401

        folder = self.runs_dir / run.name
        course = LossCourse()
        with suppress(OtherFormat, RunFolderError):
            course = read_loss_points(folder, PREVIEW_POINTS)
        candidates = [other_run for other_run in runs if is_of_same_kind(run, other_run)]
        similar_runs = [] if run.problem else find_similar(run, candidates)
        pinned_runs = [similar for similar in similar_runs if similar.run.pinned]
        reference = next(iter(pinned_runs or similar_runs), None)
        output = read.read_failed_output(folder)
        return RunDetails(course, saved_step(folder), reference, output=output)

    def read_answer(self, progress: StudyProgress) -> RunDetails:
        """Return what came out of a study so far."""
        from remote.study.conclusion import conclusion_lines
        from remote.study.results import compute_results

        return RunDetails(answer=conclusion_lines(compute_results(progress)))

    def read_courses(self, runs: Collection[str], places: int) -> dict[str, list[float]]:
        """Return the course of the loss of each of these runs."""
        return {run: self._course(self.runs_dir / run, places) for run in runs}

    def _course(self, folder: Path, places: int) -> list[float]:
        with suppress(OtherFormat, RunFolderError):
            return read_loss_course(folder, places)
        return []

    def launcher(self, plan: Plan) -> Launcher:
        """Return a launcher for the hosts of a run."""
        policy = Policy(keep=not is_here(plan.hosts))
        return Launcher(self.transports, self.runs_dir.absolute(), policy)

    def open(self, run: str) -> RunSession:
        """Open a run that is recorded here or on the hosts: replay one that has ended or that
        another process records now; attach to any other. Raises: HostsError, PlanError,
        RunFolderError."""
        found = find_run(self.transports, run, self.hosts_file, self.runs_dir)
        if isinstance(found, KeptPlan):
            return self.launcher(found.plan).attach(found)
        if read.verdict(found) or launcher(found):
            return self._replay(found)
        kept = find_here(found, self.hosts_file)
        session = self.launcher(kept.plan).attach(kept)
        if session.has_ended:
            for _ in session.batches():  # which says so in the record
                pass
            return self._replay(found)
        return session

    def _replay(self, folder: Path) -> Replay:
        return Replay(folder.absolute(), read.load_plan(folder))

    def resumed(self, run: str) -> tuple[Cluster, Cluster, Job]:
        """All hosts on which a recorded run can continue, those that it had, and the job that
        continues from its newest checkpoint. Raises: HostsError, PlanError, RunFolderError."""
        plan = find_kept(self.transports, run, self.hosts_file, self.runs_dir).plan
        job = resume.job_of({"resume": run}, self.runs_dir, is_here(plan.hosts))
        return *self._clusters_of(plan), job

    def repeated(self, run: str, seed: int) -> tuple[Cluster, Cluster, Job | Script]:
        """All hosts on which a recorded run can be repeated, those that it had, and what it did,
        with another seed. Raises: HostsError, PlanError, RunFolderError."""
        plan = find_kept(self.transports, run, self.hosts_file, self.runs_dir).plan
        return *self._clusters_of(plan), with_seed(plan.work, seed)

    def _clusters_of(self, plan: Plan) -> tuple[Cluster, Cluster]:
        """Return the hosts among which those of a plan were chosen, and those that were. Raises:
        HostsError."""
        if is_here(plan.hosts):
            here = Cluster("this machine", plan.hosts)
            return here, here
        cluster = load(self.hosts_file or Path(plan.hosts_file))
        return cluster, select(cluster, only=[host.name for host in plan.hosts])

    def removable(self, run: str) -> tuple[Sequence[Removable], str]:
        """What is to be removed of a run, here and on the hosts that answer, or else why it is
        kept. Raises: HostsError."""
        from remote.host_commands import inventory, pruning

        if marks.is_starred(self.runs_dir / run):
            return (), "it has a star"
        found = inventory.take_inventory(self.transports, self._hosts(), self.runs_dir, {run})
        going, kept = pruning.find_removable(found, 0.0, 0, {run})
        return going, "; ".join(one.why for one in kept)

    def remove(self, going: Sequence[Removable]) -> tuple[int, list[str]]:
        """Remove these. Returns how many bytes are free again, and what is still there and why.
        Raises: HostsError."""
        from remote.host_commands import pruning

        return pruning.remove_files(self.transports, self._hosts(), self.runs_dir, going)

    def folder(self, run: str) -> Path:
        """Return the folder of a recorded run. Raises: PlanError, if it is no folder of its own."""
        folder = self.runs_dir / run
        if not is_folder(folder):
            raise PlanError(f"{folder} is not a folder: nothing was changed")
        return folder

    def _hosts(self) -> tuple[Host, ...]:
        """Return the hosts of the file or the job, if there is one. Raises: HostsError."""
        if self.hosts_file is None and not has_usual():
            return ()
        return (load(self.hosts_file) if self.hosts_file else load_usual()).hosts


class FolderWatch:
    """Looks at what is recorded, again and again, and reads it only if it may have changed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._listed = Listed()
        self._changed_at: float | None = None
        self._read_at = 0.0

    def look(self, *, has_live: bool) -> Listed:
        """Return what is recorded. `has_live`: a run that is listed is live."""
        now = time.time()
        changed_at = self._history.changed_at
        is_same = changed_at == self._changed_at and now - changed_at > YOUNG
        if has_live or not is_same or not 0.0 <= now - self._read_at < READ_EVERY:
            return self.read()
        return self._listed

    def read(self) -> Listed:
        """Read what is recorded."""
        # Before it is read: what changes meanwhile is read the next time.
        self._changed_at = self._history.changed_at
        self._read_at = time.time()
        self._listed = self._history.recorded()
        return self._listed


def _has_ended(run: ListedRun, *, is_complete: bool) -> bool:
    """Return whether hosts know the run and it is live nowhere. `is_complete`: all have answered,
    else each host of the run must have."""
    return bool(run.parts) and not run.live and (is_complete or len(run.parts) == run.hosts)


def _progress(folder: StudyFolder) -> StudyProgress:
    """Return how far a study is, with the runs that failed. Raises: StudyError, OSError."""
    from remote.study.progress import StudyProgress
    from remote.study.start_study import open_study

    progress = StudyProgress.recorded(open_study(folder), folder.entries())
    if launcher(folder.path) is None:  # what was under way was left
        for cell in progress.cells.values():
            cell.running = ""
    return progress
