"""Runs a study: one run after the other, each noted in the journal before and after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from remote.host_commands.kept_plan import KeptPlan
from remote.lab.spec import LabError
from remote.launch import Launcher
from remote.metrics.conditions import find_conditions
from remote.plan.plan import PlanError
from remote.record import summary
from remote.record.events_file import RunFolderError
from remote.record.read import load_plan
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.session.session import Session
from remote.study import measurement
from remote.study.folder import JournalEntry, RunBegun, RunEnded, StudyFolder, TrialOutcome
from remote.study.host_pool import HostPool
from remote.study.mistakes import format_toml
from remote.study.progress import StudyProgress, next_trial, repeat_trial, unstable_cells
from remote.study.study import Study, Trial
from training.wire.events import Record

LIMIT = "time limit of the study"
LEFT = "the study was interrupted"
ENOUGH_REFUSALS = 3
"""Runs that fail for one reason before their first step until the study stops."""


def _ignore_end(end: RunEnded) -> None:
    """Do nothing: nobody listens."""


@dataclass(frozen=True)
class StudyRun:
    """A run under way."""

    trial: Trial
    session: Session
    is_left: bool = False
    """True if an earlier call left it, and this one ends it."""


@dataclass
class StudyRunner:
    """Runs what is missing of a study.

    `progress`, `changes` and `is_over` are written only by the thread that iterates `runs`, while
    it holds `lock`.
    """

    study: Study
    folder: StudyFolder
    places: HostPool
    launcher: Launcher
    stable: float = 0.0
    """With --until-stable, the widest interval of a cell as a share of its middle."""
    ended: Callable[[RunEnded], object] = _ignore_end
    """Called with each run that has ended, or could not begin."""
    progress: StudyProgress = field(init=False)
    changes: int = 0
    """Counts how often `progress` has changed."""
    current: StudyRun | None = None
    stop_reason: str = ""
    is_over: bool = False
    is_refused: bool = False
    """True if it stopped by itself: all runs failed before their first step for one reason, or the
    first one has no value of what the study compares."""
    _refusals: list[str] = field(default_factory=list)
    """Why runs failed before their first step; "" for runs that came further."""

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.progress = StudyProgress.of(self.study, self.folder.entries())
        # Runs that counted in earlier calls have made steps, so the study is not refused.
        self._refusals = [""] * len(self.progress.counted_runs)

    @property
    def runs_dir(self) -> Path:
        """Return the folder that its runs lie in."""
        return self.launcher.runs_dir

    @property
    def is_stopped(self) -> bool:
        """Return whether somebody has stopped the study, or it has stopped by itself."""
        return bool(self.stop_reason)

    def stop(self, reason: str, *, now: bool = False) -> None:
        """Stop the run under way and begin no other; return at once.

        With `now`, ranks have no time to end by themselves. From any thread or signal handler.
        """
        self.stop_reason = self.stop_reason or reason
        # Read once: the thread that makes the runs may set it to None meanwhile.
        current_run = self.current
        if current_run:
            current_run.session.stop(reason, now=now)

    def forget_failures(self) -> None:
        """Let another call of `runs` make the failed runs again. Only once the study is over."""
        with self.lock:
            for cell in self.progress.cells.values():
                cell.failed.clear()
            self._refusals = [""] * len(self.progress.counted_runs)
            self.stop_reason = ""
            self.is_refused = self.is_over = False
            self.changes += 1

    def runs(self) -> Iterator[StudyRun]:
        """Yield each run, of which the caller iterates `batches` to their end."""
        for run in self._iter_runs():
            self.current = run
            # The study may have been stopped while this run began, which takes seconds.
            if self.is_stopped and not run.is_left:
                run.session.stop(self.stop_reason)
            yield run
            self.current = None
            self._note_end(run)
            self._stop_with(run)
        with self.lock:
            self.is_over = True
            self.changes += 1

    def batches(self, run: StudyRun) -> Iterator[list[Record]]:
        """Yield the records of a run as its session does; stop a run that takes too long."""
        state = run.session.state
        for records in run.session.batches():
            yield records
            # The session's own limits know nothing of the study, and a hung script makes no end.
            run_seconds = time.time() - state.started if state.started else 0.0
            is_late = run_seconds > self.study.limit
            if is_late and not state.stop_reason:
                run.session.stop(LIMIT)

    def _iter_runs(self) -> Iterator[StudyRun]:
        """Yield the runs that earlier calls left, then those that are missing."""
        # First, since their hosts may still be busy, which would slow the next run down.
        yield from self._iter_left_runs()
        # Asked after each run: its end may make another one necessary, or stop the study.
        while not self.is_stopped:
            trial = next_trial(self.progress) or self._next_repeat()
            if trial is None:
                return
            session = self._begin_run(trial)
            if session:
                yield StudyRun(trial, session)

    def _next_repeat(self) -> Trial | None:
        """Return another run of a cell whose interval is too wide, with --until-stable."""
        if not self.stable:
            return None
        unstable_keys = unstable_cells(self.progress, self.stable, _interval_width)
        with self.lock:
            for key, cell in self.progress.cells.items():
                cell.is_unstable = key in unstable_keys
        return repeat_trial(self.progress, unstable_keys)

    def _begin_run(self, trial: Trial) -> Session | None:
        """Return the session of a new run, or None if it cannot begin, which fails the trial."""
        try:
            cluster, transport = self.places.reach(trial.cell.place, self.study.most_nodes)
            launcher = replace(self.launcher, transport=transport)
            plan = launcher.plan(cluster, trial.work)
            # Noted before it begins: if this process dies now, the next call ends the run.
            self._note_entry(RunBegun(trial.key, plan.run))
            return launcher.begin(plan)
        except (PlanError, LabError) as error:
            failure = str(error)
            run_name = self.progress.open.get(trial.key, "none")
            self._note_entry(
                RunEnded(trial.key, run_name, TrialOutcome.FAILED, cause=failure, reason=failure)
            )
            self._stop_if_all_fail(failure)
            return None

    def _iter_left_runs(self) -> Iterator[StudyRun]:
        """Yield the runs that an earlier call left, to be ended. One that had finished counts."""
        # A copy, because noting an end changes it.
        for trial_key, run_name in list(self.progress.open.items()):
            trial = self.study.trial(trial_key)
            if self.is_stopped or not trial:
                return
            session = None
            with suppress(RunFolderError, PlanError, LabError):
                session = self._attach_run(trial, run_name)
            if session is None:
                self._note_entry(
                    RunEnded(trial_key, run_name, TrialOutcome.INTERRUPTED, cause="it never began")
                )
                continue
            if not session.has_ended:
                session.stop(LEFT, now=True)
            yield StudyRun(trial, session, is_left=True)

    def _attach_run(self, trial: Trial, run_name: str) -> Session:
        """Return the session of a run that an earlier call began."""
        plan = load_plan(self.launcher.runs_dir / run_name)
        _, transport = self.places.reach(trial.cell.place, self.study.most_nodes)
        launcher = replace(self.launcher, transport=transport)
        return launcher.attach(KeptPlan(plan, {}))

    # The end of a run

    def _note_end(self, run: StudyRun) -> None:
        """Note what a run was for its trial."""
        state = run.session.state
        run_end = self._judge(run.trial, state)
        if not run.is_left:
            # A run that never made a step says what is wrong with all others, too.
            is_refusal = run_end.outcome is TrialOutcome.FAILED and not state.step
            is_refusal = is_refusal and run_end.cause != LIMIT
            self._stop_if_all_fail(measurement.general_cause(state) if is_refusal else "")
            is_unmeasured = state.verdict is Verdict.FINISHED and not state.progress.diverged
            if is_unmeasured and run_end.outcome is TrialOutcome.FAILED:
                self._stop_if_none_is_measured()
        elif run_end.outcome is TrialOutcome.FAILED:
            # Being left may have made it fail: this call makes it again.
            run_end = replace(run_end, outcome=TrialOutcome.INTERRUPTED)
        self._note_entry(run_end)

    def _judge(self, trial: Trial, state: RunState) -> RunEnded:
        """Return what a run was for its trial, with its value, or why it failed."""
        run_end = RunEnded(
            trial.key,
            state.plan.run,
            TrialOutcome.FAILED,
            remarks=measurement.list_remarks(trial.cell, state),
            seconds=max(0.0, state.elapsed),
            losses=measurement.first_and_last_loss(state),
            conditions=find_conditions(state),
            at_chance=measurement.ends_at_chance(state),
        )
        if state.verdict is Verdict.FINISHED:
            value = measurement.read_value(self.study, summary.summarize(state))
            if value is not None:
                return replace(run_end, outcome=TrialOutcome.COUNTED, value=value)
            cause = measurement.describe_missing(self.study, state)
        # The study itself stopped it, and would do so again: the trial has failed.
        elif state.stop_reason == LIMIT:
            cause = LIMIT
        else:
            cause = state.cause.text() if state.cause else state.stop_reason
            # Somebody stopped or left it, which is no fault of the run: it may be made again.
            if state.verdict in (None, Verdict.STOPPED):
                run_end = replace(run_end, outcome=TrialOutcome.INTERRUPTED)
        reason = measurement.general_cause(state) if cause else ""
        return replace(run_end, cause=cause, reason=reason)

    def _note_entry(self, entry: JournalEntry) -> None:
        # The disk before the screen: what is shown as done has to be there after a crash.
        self.folder.write(entry)
        with self.lock:
            self.progress.apply(entry)
            self.changes += 1
        if isinstance(entry, RunEnded):
            self.ended(entry)

    # Stopping

    def _stop_with(self, run: StudyRun) -> None:
        """Stop the study, too, if somebody has stopped its run, or left it."""
        state = run.session.state
        is_stopped_by_study = run.is_left or self.is_stopped or state.stop_reason == LIMIT
        if state.verdict in (None, Verdict.STOPPED) and not is_stopped_by_study:
            self.stop_reason = state.stop_reason or "the run was stopped"

    def _stop_if_all_fail(self, reason: str) -> None:
        """Stop once all runs failed before their first step for one reason: so will the others."""
        self._refusals.append(reason)
        is_enough = len(self._refusals) >= ENOUGH_REFUSALS
        if reason and is_enough and set(self._refusals) == {reason} and not self.is_stopped:
            self.is_refused = True
            self.stop_reason = "all so far failed for one reason before their first step"

    def _stop_if_none_is_measured(self) -> None:
        """Stop if a run lacks what the study compares, and no run before has it."""
        if not self.progress.counted_runs and not self.is_stopped:
            self.is_refused = True
            self.stop_reason = f"metric = {format_toml(self.study.metric)} is not in its first run"


def _interval_width(values: Sequence[float]) -> float:
    """Return half the width of the interval of a cell, as a share of its middle."""
    from remote.statistics.interval import mean_interval  # numpy takes a while to import

    return mean_interval(values).percent / 100
