"""What is computed of a run once for each of its states."""

from __future__ import annotations

from remote.run.apply import apply_record
from remote.run.findings.rates import step_means
from remote.run.findings.training_loss import find_training_loss
from remote.run.run_state import RunState
from remote.run.state.once_per_state import once_per_state
from tests.kit.histories import History, plan, state_of


def test_it_is_computed_again_after_a_record_and_of_another_run() -> None:
    asked = list[RunState]()

    @once_per_state
    def count_ranks(run: RunState) -> int:
        asked.append(run)
        return len(run.ranks)

    history = History(plan(2)).training(steps=2)
    state = state_of(plan(2), history.records)
    other = state_of(plan(3), [])
    assert [count_ranks(state), count_ranks(state), count_ranks(other)] == [2, 2, 3]
    assert [count_ranks(state), count_ranks(state)] == [2, 2]
    assert len(asked) == 3
    apply_record(state, history.records[-1])
    assert (count_ranks(state), len(asked)) == (2, 4)


def test_figures_of_all_ranks_are_those_of_the_newest_record() -> None:
    history = History(plan(2)).training(steps=40).done(0, 1)
    history.closed()
    records = history.records
    state = RunState(plan(2))
    for number, record in enumerate(records, 1):
        step_means(state)  # which may be kept too long
        find_training_loss(state)
        apply_record(state, record)
        fresh = state_of(plan(2), records[:number])
        assert repr(step_means(state)) == repr(step_means(fresh))
        assert find_training_loss(state) == find_training_loss(fresh)
    assert state.means.seconds > 0
