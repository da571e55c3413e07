"""The dashboard when nothing moves: who is said to be at fault, and everybody's stacks."""

from __future__ import annotations

import re

import pytest
from textual.content import Content

from remote.events import Stalled
from remote.run.run_state import RunState
from remote.run.state.rank_state import RankState
from tests.kit.acted import ActedSession, until
from tests.kit.dashboard import Stage
from tests.kit.dumps import C10D, LOADS, OUTER, SITE, STOPPED, WAITS, by, dump
from training.wire.events import SESSION
from training.wire.host_events import Stack
from tui.kit.session_clock import SessionClock
from tui.run import stacks_screen as stacks
from tui.run.screen import RunScreen
from tui.run.stacks_screen import StacksScreen


def tell(session: ActedSession, *stacks: Stack) -> None:
    for rank, stack in enumerate(stacks):
        session.say(session.host_of(rank), by(stack, rank))


def words(stage: Stage) -> str:
    return " ".join(stage.text().replace("▌", " ").split())


async def test_a_stall_is_on_the_screen_with_its_culprit_until_the_ranks_step_again() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.say(SESSION, Stalled((0, 1, 2, 3), 31.0), after=31.0)
        await until(
            pilot,
            lambda: (
                "ranks 0 to 3 make no steps" in words(stage)
                and stage.text().count("stalled") >= 5  # and each in its row
            ),
        )
        tell(stage.session, WAITS, WAITS, LOADS, WAITS)
        await until(pilot, lambda: "ranks 0, 1 and 3 wait for it in all_reduce" in words(stage))
        above = stage.text().split("log")[0]
        assert above.count("stalled for ") == 1, "it is said once, with its age"
        assert (
            "rank 2 on node2 is not inside a collective: it is in train.py:41, load_batch"
            in words(stage)
        )
        stage.session.steps(61, 61)
        await stage.heard(pilot, 61)
        above = stage.text().split("log")[0]
        assert above.count("stalled from ") == 1
        stage.session.finish(61, 1)
        await stage.ended(pilot)


async def test_of_a_stall_the_culprit_comes_first_and_what_to_do_is_said() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        assert "● training" in stage.text().splitlines()[0]
        stage.session.say(SESSION, Stalled((0, 1, 2, 3), 31.0), after=31.0)
        tell(stage.session, WAITS, WAITS, STOPPED, WAITS)
        await until(pilot, lambda: "✗ halted" in stage.text())
        assert "✗ STALLED" in stage.text().splitlines()[0]
        assert "▶ y copy the command to let rank 2 go on s stacks q stop" in words(stage)
        await pilot.press("y")
        await until(pilot, lambda: stage.app.clipboard.endswith("kill -CONT 4002"))
        assert stage.app.clipboard.startswith("ssh "), "it can be typed as it is"
        rows = re.findall(r"(\d) +\S* *(✗ halted|○ waiting)", stage.text())
        assert rows == [("2", "✗ halted"), *[(rank, "○ waiting") for rank in "013"]]
        stage.session.finish(61, 1)
        await stage.ended(pilot)


async def test_the_stacks_are_written_anew_only_where_one_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, written = Stage(), list[float]()

    def counted(
        run: RunState, ranks: list[RankState], now: float, width: int, *, shows_libraries: bool
    ) -> list[Content]:
        written.append(now)
        return list(write(run, ranks, now, width, shows_libraries=shows_libraries))

    write = stacks._stack_lines
    monkeypatch.setattr(stacks, "_stack_lines", counted)
    monkeypatch.setattr(SessionClock, "now", lambda _, run: run.now)
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "no stack yet" in stage.text())
        tell(stage.session, WAITS, WAITS, LOADS, WAITS)
        await until(pilot, lambda: "load_batch" in stage.text())
        written.clear()
        for _ in range(5):
            stage.app.tick()
        assert not written
        stage.session.say(0, by(STOPPED, 0))
        await until(pilot, lambda: "stopped" in stage.text())
        assert len(written) == 1
        await pilot.press("escape")


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_s_asks_for_the_stacks_and_shows_each_ranks_newest(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.training(size=size) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "no stack yet" in stage.text())
        assert stage.session.asked == 1
        tell(stage.session, WAITS, STOPPED, LOADS, WAITS)
        await until(pilot, lambda: "rank 2 on node2 train.py:41, load_batch" in words(stage))
        assert "rank 1 on node1 stopped" in words(stage)
        # Ranks in the same calls have one line, and one stack.
        assert "ranks 0,3 in all_reduce" in words(stage)
        assert stage.text().count("… 2 calls of torch, the newest is all_reduce") == 1
        await pilot.press("f")
        await until(pilot, lambda: stage.text().count("distributed_c10d.py:41, all_reduce") == 1)
        await pilot.press("f")
        await pilot.press("s", "r", "r", "r")
        assert stage.session.asked == 2
        await until(
            pilot,
            lambda: (
                "stacks of rank 2" in (text := stage.text())
                and "time.sleep(9)" in text
                and "all_reduce" not in text
            ),
        )
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))
        stage.session.finish(60, 1)
        await stage.ended(pilot)


async def test_all_of_a_long_stack_can_be_scrolled_to_and_a_node_cannot_draw() -> None:
    stage = Stage(1, 1)
    deep = dump(
        ("/x/train.py", "\x1b[31mdeep", "[bold]"),
        *((f"/x/m{number}.py", f"f{number}") for number in range(60)),
        *OUTER,
    )
    async with stage.app.run_test(size=(80, 24)) as pilot:
        stage.session.start()
        tell(stage.session, deep)
        await pilot.press("s")
        await until(pilot, lambda: "train.py:41, deep" in stage.text() and "[bold]" in stage.text())
        assert isinstance(stage.app.screen, StacksScreen)
        await pilot.press("end")
        await until(pilot, lambda: "train.py:41, <module>" in stage.text())
        await pilot.press("q")
        stage.session.finish()
        await stage.ended(pilot)


async def test_after_the_end_the_last_stacks_are_still_there_and_nobody_is_asked() -> None:
    stage = Stage(1, 1)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        stage.session.start()
        tell(stage.session, dump(*C10D, *OUTER))
        stage.session.finish()
        await stage.ended(pilot)
        await pilot.press("s")
        await until(pilot, lambda: "all_reduce" in stage.text())
        text = stage.text()
        assert "run has ended; stacks of step 0" in text
        assert "from faulthandler, after step 0" in text
        assert "ago" not in text  # long after its death
        assert stage.session.asked == 0
        await pilot.press("escape")


async def test_of_an_ended_run_only_stacks_that_came_are_shown() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        await pilot.press("s")
        await until(pilot, lambda: "has no stacks: nobody asked for them" in stage.text())
        assert "exit code" not in stage.text()
        await pilot.press("escape")


async def test_the_steps_of_the_stacks_of_an_ended_run() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        tell(stage.session, WAITS, WAITS)
        stage.session.steps(61, 70)
        await stage.heard(pilot, 70)
        stage.session.say(1, by(LOADS, 2))
        stage.session.finish(70, 1)
        await stage.ended(pilot)
        await pilot.press("s")
        await until(pilot, lambda: "run has ended; stacks of step 60 to 70" in stage.text())
        assert "rank 3" not in stage.text()
        await pilot.press("escape")


async def test_files_of_the_script_are_named_from_its_folder_and_ranks_at_one_line_are_one() -> (
    None
):
    stage = Stage(1, 3)
    script = ("/home/me/run/train.py", "main", "loss.backward()")
    model = ("/home/me/run/nets/big.py", "forward", "x = self.layers(x)")
    torch_file = f"{SITE}/torch/nn/functional.py"
    stacks_of_ranks = [
        dump((torch_file, "linear"), model, script),
        dump((torch_file, "relu"), (torch_file, "call"), model, script),
        dump(script),
    ]
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("s")
        tell(stage.session, *stacks_of_ranks)
        await until(pilot, lambda: "files are in /home/me/run" in stage.text())
        assert "ranks 0-1 on node1 big.py:41, forward" in words(stage)
        assert "nets/big.py:41, forward" in stage.text()
        assert "/home/me/run/nets" not in stage.text()
        await pilot.press("escape")
