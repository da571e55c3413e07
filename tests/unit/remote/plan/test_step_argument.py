"""How many steps a script is told to make, and what becomes of that as it makes them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from remote.plan.plan import Script
from remote.plan.step_argument import StepArgument, find_step_argument
from remote.run.run_state import RunState
from tests.kit.histories import History, block_of, plan, stepped
from training.wire.host_events import Exited


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("train.py --steps 4000", StepArgument("--steps", 4000)),
        ("train.py --lr 0.1 --max_iters=600 --seed 1", StepArgument("--max_iters", 600)),
        ("-m pretrain --train-iters 50", StepArgument("--train-iters", 50)),
        ("train.py", None),
        ("train.py --steps", None),
        ("train.py --max_steps -1", None),
        ("train.py --steps 0", None),
        ("train.py --steps 1e3", None),
        ("train.py --save-steps 500", None),
        ("train.py steps 500", None),
        ("train.py --steps 10 --max-steps 20", None),
        ("train.py --steps 4000 --resume out/500.pt", None),
    ],
)
def test_it_is_read_from_well_known_options(line: str, argument: StepArgument | None) -> None:
    assert find_step_argument(line.split()) == argument


def run_of_60_steps(steps: int, *, in_block: bool = False) -> History:
    script = Script(("train.py", "--steps", "60"))
    history = History(replace(plan(1, script=True), work=script))
    history.rank(0, history.launched(0))
    made = [stepped(0, number, compute=0.01) for number in range(1, steps + 1)]
    if in_block:
        history.rank(0, *made[:25])
        history.rank(0, block_of(made[25:], history.now + 1.0))
    else:
        history.rank(0, *made)
    return history


def known(run: RunState) -> tuple[int, bool]:
    return run.progress.steps, math.isfinite(run.eta(run.now))


def test_it_is_the_total_until_the_script_makes_more() -> None:
    assert known(run_of_60_steps(50).state()) == (60, True)
    assert known(run_of_60_steps(60).state()) == (60, True)
    assert known(run_of_60_steps(61).state()) == (0, False)
    assert known(run_of_60_steps(61, in_block=True).state()) == (0, False)


def test_a_script_that_ends_well_before_has_counted_otherwise() -> None:
    assert known(run_of_60_steps(50).rank(0, Exited(0, 0)).state())[0] == 0
    assert known(run_of_60_steps(50).rank(0, Exited(0, 1)).state())[0] == 60
    assert known(run_of_60_steps(60).rank(0, Exited(0, 0)).state())[0] == 60
