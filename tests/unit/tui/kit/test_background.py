"""Work in threads beside the screens."""

from __future__ import annotations

import threading

import pytest
from textual.app import App
from textual.widgets import Static

from tests.kit.acted import until
from tui.kit.background import RepeatedTask, run_in_background


async def test_work_is_done_once_at_a_time_and_once_more_if_asked_for_meanwhile() -> None:
    app = App[None]()
    taken, begun, goes_on = list[str](), list[str](), threading.Semaphore(0)
    async with app.run_test() as pilot:
        work = RepeatedTask(app, taken.append)

        def begin(name: str) -> None:
            def act() -> str:
                begun.append(name)
                goes_on.acquire()
                return name

            work.begin(act)

        for name in ("first", "second", "third"):
            begin(name)
        assert work.is_busy
        await until(pilot, lambda: bool(begun))
        goes_on.release()
        await until(pilot, lambda: taken == ["first"])
        assert work.is_busy
        goes_on.release()
        await until(pilot, lambda: taken == ["first", "third"])
        assert begun == taken, "the newest question is answered, those before it are out of date"
        assert not work.is_busy


async def test_what_takes_long_is_repeated_less_often() -> None:
    app, taken = App[None](), list[float]()
    async with app.run_test() as pilot:
        work = RepeatedTask(app, taken.append)
        assert work.is_due(0.0)
        assert not work.is_due(600.0)
        goes_on = threading.Event()
        work.begin(lambda: float(goes_on.wait()))
        assert not work.is_due(0.0), "it is under way"
        goes_on.set()
        await until(pilot, lambda: bool(taken))
        work._began_at = work._ended_at - 3.0
        assert not work.is_due(0.0), "it took 3 s: a tenth of the time is 30 s"
        work._ended_at -= 30.0
        work._began_at -= 30.0
        assert work.is_due(0.0)


def fail() -> None:
    raise OSError("the disk is full")


async def test_an_error_is_told() -> None:
    app, told = App[None](), list[str]()
    async with app.run_test() as pilot:
        RepeatedTask(app, print, lambda error: told.append(str(error))).begin(fail)
        await until(pilot, lambda: told == ["the disk is full"])


async def test_what_comes_after_the_user_has_left_is_not_shown() -> None:
    app, taken, goes_on = App[None](), list[bool](), threading.Event()
    async with app.run_test():
        shown = Static()
        await app.mount(shown)
        run_in_background(shown, goes_on.wait, taken.append)
        app.exit()
        goes_on.set()
        for thread in threading.enumerate():
            if thread.name == "background":
                thread.join()
    assert not taken


class Fails(App[None]):
    """Has work that fails, and tells nobody."""

    def on_mount(self) -> None:
        RepeatedTask(self, print).begin(fail)


async def test_an_error_that_nobody_tells_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    app = Fails()
    await app.run_async(headless=True)
    assert app.return_code == 1
    assert "the disk is full" in capsys.readouterr().err
