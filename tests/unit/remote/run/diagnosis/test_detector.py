"""Detectors: whatever is in the list of a run hears of its steps and restarts."""

from __future__ import annotations

from remote.events import Restarted
from remote.run.apply import apply_record
from remote.run.diagnosis.detector import Report
from remote.run.run_state import RunState
from remote.run.state.rank_state import Ranks, RankState, find_leader
from tests.kit.histories import History, plan
from training.wire.events import SESSION
from training.wire.rank_events import ScriptMetrics, StepFinished


class Listener:
    """A detector that notes what it is told, and remarks on the third step of rank 1."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def take_report(self, report: Report, rank: RankState, when: float) -> list[str]:
        if isinstance(report, StepFinished):
            assert rank.step == report.step, "the rank has taken it in already"
        self.heard.append((type(report).__name__, rank.rank))
        return ["the third"] if (rank.rank, rank.step) == (1, 3) else []

    def restart(self, ranks: Ranks, when: float) -> None:
        self.heard.append(("restart", len(ranks)))


def played(history: History) -> tuple[RunState, Listener]:
    run, listener = RunState(history.plan), Listener()
    run.detectors = (*run.detectors, listener)
    for record in history.records:
        apply_record(run, record)
    return run, listener


def test_each_step_and_each_restart_is_told_and_remarks_are_logged() -> None:
    history = History(plan(2)).training(3)
    history.attempt = 1
    history.say(SESSION, Restarted((0, 1), "a host was lost"))
    run, listener = played(history)
    steps = [("StepFinished", rank) for _ in range(3) for rank in range(2)]
    assert listener.heard == [*steps, ("restart", 2)]
    assert sum("the third" in line.text for line in run.log.notes) == 1


def test_what_a_script_prints_between_steps_is_told_as_well() -> None:
    history = History(plan(1, script=True))
    history.rank(0, history.launched(0), ScriptMetrics(0, 1, 0.0, (("loss", 0.5),)))
    _, listener = played(history)
    assert listener.heard == [("ScriptMetrics", 0)]


def test_the_leader_is_the_first_rank_that_makes_steps() -> None:
    run, _ = played(History(plan(2)).training())
    assert find_leader(run.ranks) is None
    run, _ = played(History(plan(2)).training(1))
    assert find_leader(run.ranks) is run.ranks[0]
