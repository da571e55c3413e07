"""Runs a study: one run after the other, each noted in the journal before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from remote.errands.kept_plan import Kept
from remote.launch import Launcher
from remote.plan.plan import PlanError
from remote.record import summary
from remote.record.read import RunFolderError, load_plan
from remote.run.state import RunState, Verdict
from remote.session.session import Session
from remote.study import choose
from remote.study.folder import Begun, Ended, Entry, Outcome, StudyFolder
from remote.study.measure import measured
from remote.study.places import Places
from remote.study.progress import Progress
from remote.study.study import Study, Trial

LIMIT = "time limit of the study"


@dataclass
class Runner:
    """Runs what is left of a study. `stable`: with --until-stable, the widest interval of a cell as
    a share of its middle."""

    study: Study
    folder: StudyFolder
    places: Places
    launcher: Launcher
    stable: float = 0.0
    progress: Progress = field(init=False)
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.progress = Progress.of(self.study, self.folder.entries())

    def sessions(self) -> Iterator[tuple[Trial, Session]]:
        """Each run as a session of which the caller iterates the batches to their end. After that
        the run is judged."""
        yield from self._interrupted()
        while not self.is_stopped:
            trial = choose.next_trial(self.progress, self.stable, _width)
            if trial is None:
                return
            session = self._begin(trial)
            if session is None:
                continue
            yield trial, session
            self._judge(trial, session.state)

    def stop(self) -> None:
        """Start no further run."""
        self.is_stopped = True

    def has_expired(self, session: Session, now: float) -> bool:
        """Whether a run has taken longer than the study allows, at this Unix time."""
        started = session.state.started
        return bool(started) and now - started > self.study.limit

    def _begin(self, trial: Trial) -> Session | None:
        """The session of a new run; None where it cannot begin, which fails the trial."""
        cluster, transport = self.places.reach(trial.cell.place)
        launcher = replace(self.launcher, transport=transport)
        try:
            plan = launcher.plan(cluster, trial.job)
            self._note(Begun(trial.key, plan.run))
            return launcher.begin(plan)
        except PlanError as error:
            self._note(Ended(trial.key, "none", Outcome.FAILED, cause=str(error)))
            return None

    def _interrupted(self) -> Iterator[tuple[Trial, Session]]:
        """End the runs that an earlier call left. One that had finished counts."""
        trials = {
            Trial(cell, number).key: Trial(cell, number)
            for cell in self.study.cells
            for number in range(1, choose.MOST * self.study.repetitions + 1)
        }
        for key, run in list(self.progress.open.items()):
            session = None
            with suppress(RunFolderError, PlanError):
                plan = load_plan(self.launcher.runs_dir / run)
                transport = self.places.reach(trials[key].cell.place)[1]
                launcher = replace(self.launcher, transport=transport)
                session = launcher.attach(Kept(plan, {}))
            if session is None:
                self._note(Ended(key, run, Outcome.INTERRUPTED, cause="it never began"))
                continue
            if not session.has_ended:
                session.stop("the study was interrupted", now=True)
            yield trials[key], session
            self._judge(trials[key], session.state)

    def _judge(self, trial: Trial, state: RunState) -> None:
        """Note what the run was for the trial."""
        run, remarks = state.plan.run, tuple(summary.remarks(state))
        if state.verdict is Verdict.FINISHED:
            value = measured(self.study.metric, summary.of(state))
            if value is None:
                cause = f"the run has no {self.study.metric}"
                self._note(Ended(trial.key, run, Outcome.FAILED, cause=cause))
                return
            self._note(Ended(trial.key, run, Outcome.COUNTED, value, remarks=remarks))
            return
        by_limit = state.stop_reason == LIMIT
        is_failure = by_limit or state.verdict not in (None, Verdict.STOPPED)
        cause = LIMIT if by_limit else (state.cause.text() if state.cause else state.stop_reason)
        outcome = Outcome.FAILED if is_failure else Outcome.INTERRUPTED
        self._note(Ended(trial.key, run, outcome, cause=cause, remarks=remarks))

    def _note(self, entry: Entry) -> None:
        self.folder.write(entry)
        self.progress.apply(entry)


def _width(values: Sequence[float]) -> float:
    """Half the width of the interval of a cell, as a share of its middle."""
    from remote.statistics.interval import interval  # numpy takes a while to import

    return interval(values).percent / 100
