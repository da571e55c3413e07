"""Runs a study: one run after the other, each noted in the journal before and after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

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
from remote.study import choose
from remote.study import measurement as measure
from remote.study.folder import JournalEntry, RunBegun, RunEnded, StudyFolder, TrialOutcome
from remote.study.host_pool import HostPool
from remote.study.mistakes import format_toml
from remote.study.progress import StudyProgress
from remote.study.study import Study, Trial
from training.wire.events import Record

LIMIT = "time limit of the study"
LEFT = "the study was interrupted"
ENOUGH = 3
"""Runs that fail for one reason before their first step until the study stops."""


@dataclass(frozen=True)
class StudyRun:
    """A run under way. `is_left`: an earlier call left it, and this one ends it."""

    trial: Trial
    session: Session
    is_left: bool = False


@dataclass
class StudyRunner:
    """Runs what is left of a study. `stable`: with --until-stable, the widest interval of a cell as
    a share of its middle. `ended` hears of each run that has ended, or could not begin.

    `is_refused`: it stopped by itself, because all runs failed before their first step for one
    reason, or the first one has no value of what the study compares.

    `progress` is written only while `lock` is held, by the thread that iterates `runs`; so is
    `is_over`; `changes` counts how often.
    """

    study: Study
    folder: StudyFolder
    places: HostPool
    launcher: Launcher
    stable: float = 0.0
    ended: Callable[[RunEnded], object] = id
    progress: StudyProgress = field(init=False)
    changes: int = 0
    current: StudyRun | None = None
    stop_reason: str = ""
    is_over: bool = False
    is_refused: bool = False
    _reasons: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.progress = StudyProgress.of(self.study, self.folder.entries())
        self._reasons = [""] * len(self.progress.runs)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has stopped the study."""
        return bool(self.stop_reason)

    def stop(self, reason: str, *, now: bool = False) -> None:
        """Stop the run under way and begin no other; returns at once. `now`: without the time that
        ranks have to end by themselves. From any thread or signal handler."""
        self.stop_reason = self.stop_reason or reason
        run = self.current
        if run:
            run.session.stop(reason, now=now)

    def runs(self) -> Iterator[StudyRun]:
        """Each run, of which the caller iterates `batches` to their end. Then it is judged."""
        for run in self._all():
            self.current = run
            if self.is_stopped and not run.is_left:
                run.session.stop(self.stop_reason)
            yield run
            self.current = None
            self._judge(run)
            self._follow(run)
        with self.lock:
            self.is_over = True
            self.changes += 1

    def _follow(self, run: StudyRun) -> None:
        """Stop the study, too, where somebody has stopped its run, or it was left."""
        state = run.session.state
        is_ours = run.is_left or self.is_stopped or state.stop_reason == LIMIT
        if state.verdict in (None, Verdict.STOPPED) and not is_ours:
            self.stop_reason = state.stop_reason or "the run was stopped"

    def batches(self, run: StudyRun) -> Iterator[list[Record]]:
        """The records of a run, as of its session; one that takes too long is stopped."""
        state = run.session.state
        for records in run.session.batches():
            yield records
            is_late = bool(state.started) and time.time() - state.started > self.study.limit
            if is_late and not state.stop_reason:
                run.session.stop(LIMIT)

    def _all(self) -> Iterator[StudyRun]:
        """The runs that earlier calls left, then those that are missing."""
        yield from self._left()
        while not self.is_stopped:
            trial = choose.next_trial(self.progress) or self._again()
            if trial is None:
                return
            session = self._begin(trial)
            if session:
                yield StudyRun(trial, session)

    def _again(self) -> Trial | None:
        """With --until-stable, another run of a cell of which the interval is too wide."""
        if not self.stable:
            return None
        unstable = choose.unstable(self.progress, self.stable, _width)
        with self.lock:
            for key, cell in self.progress.cells.items():
                cell.is_unstable = key in unstable
        return choose.another(self.progress, unstable)

    def _begin(self, trial: Trial) -> Session | None:
        """The session of a new run; None where it cannot begin, which fails the trial."""
        try:
            cluster, transport = self.places.reach(trial.cell.place, self.study.most_nodes)
            launcher = replace(self.launcher, transport=transport)
            plan = launcher.plan(cluster, trial.work)
            self._note(RunBegun(trial.key, plan.run))
            return launcher.begin(plan)
        except (PlanError, LabError) as error:
            run = self.progress.open.get(trial.key, "none")
            cause = str(error)
            self._note(RunEnded(trial.key, run, TrialOutcome.FAILED, cause=cause, reason=cause))
            self._stop_if_all_fail(str(error))
            return None

    def _stop_if_all_fail(self, reason: str) -> None:
        """Stop once all runs so far failed before their first step for one reason: so will the
        others. `reason` is "" of a run that came further."""
        self._reasons.append(reason)
        is_enough = len(self._reasons) >= ENOUGH
        if reason and is_enough and set(self._reasons) == {reason} and not self.is_stopped:
            self.is_refused = True
            self.stop_reason = "all so far failed for one reason before their first step"

    def _stop_if_none_is_measured(self) -> None:
        """Stop where a run lacks what the study compares, and no run before has it: so will the
        others."""
        if not self.progress.runs and not self.is_stopped:
            self.is_refused = True
            self.stop_reason = f"metric = {format_toml(self.study.metric)} is not in its first run"

    def _left(self) -> Iterator[StudyRun]:
        """The runs that an earlier call left, to be ended. One that had finished counts."""
        for key, run in list(self.progress.open.items()):
            trial = self.study.trial(key)
            if self.is_stopped or not trial:
                return
            session = None
            with suppress(RunFolderError, PlanError, LabError):
                plan = load_plan(self.launcher.runs_dir / run)
                transport = self.places.reach(trial.cell.place, self.study.most_nodes)[1]
                launcher = replace(self.launcher, transport=transport)
                session = launcher.attach(KeptPlan(plan, {}))
            if session is None:
                self._note(RunEnded(key, run, TrialOutcome.INTERRUPTED, cause="it never began"))
                continue
            if not session.has_ended:
                session.stop(LEFT, now=True)
            yield StudyRun(trial, session, is_left=True)

    def _judge(self, run: StudyRun) -> None:
        """Note what the run was for its trial. One that an earlier call left, and that failed, says
        nothing about the trial: this call makes it again."""
        trial = run.trial
        state = run.session.state
        outcome, value, cause = self._outcome(state)
        lacks = self._lacks(state, value)
        if run.is_left and outcome is TrialOutcome.FAILED:
            outcome = TrialOutcome.INTERRUPTED
        if not run.is_left:
            is_refused = outcome is TrialOutcome.FAILED and not state.step and cause != LIMIT
            self._stop_if_all_fail(measure.general_cause(state) if is_refused else "")
            if lacks:
                self._stop_if_none_is_measured()
        remarks = measure.list_remarks(trial.cell, state)
        seconds = max(0.0, state.elapsed)
        self._note(
            RunEnded(
                trial.key,
                state.plan.run,
                outcome,
                value,
                cause,
                remarks,
                seconds,
                measure.first_and_last_loss(state),
                measure.general_cause(state) if cause and not lacks else "",
                lacks,
                find_conditions(state),
            )
        )

    def _lacks(self, state: RunState, value: float | None) -> str:
        """The metric of which a run has no value that has finished and did not diverge; "" where it
        has one."""
        is_whole = state.verdict is Verdict.FINISHED and not state.progress.diverged
        return self.study.metric if is_whole and value is None else ""

    def _outcome(self, state: RunState) -> tuple[TrialOutcome, float | None, str]:
        """What the run was, its value, and why it failed."""
        if state.verdict is Verdict.FINISHED:
            value = measure.read_value(self.study, summary.summarize(state))
            if value is None:
                return TrialOutcome.FAILED, None, measure.describe_missing(self.study, state).text()
            return TrialOutcome.COUNTED, value, ""
        if state.stop_reason == LIMIT:
            return TrialOutcome.FAILED, None, LIMIT
        is_failure = state.verdict not in (None, Verdict.STOPPED)
        cause = state.cause.text() if state.cause else state.stop_reason
        return TrialOutcome.FAILED if is_failure else TrialOutcome.INTERRUPTED, None, cause

    def _note(self, entry: JournalEntry) -> None:
        self.folder.write(entry)
        with self.lock:
            self.progress.apply(entry)
            self.changes += 1
        if isinstance(entry, RunEnded):
            self.ended(entry)


def _width(values: Sequence[float]) -> float:
    """Half the width of the interval of a cell, as a share of its middle."""
    from remote.statistics.interval import mean_interval  # numpy takes a while to import

    return mean_interval(values).percent / 100
