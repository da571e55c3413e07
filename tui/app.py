"""The dashboard: the launch form, one run after the other, and the way out."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rich.console import RenderableType
from textual.actions import ActionParseResult
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.events import Event, Key, Resize
from textual.screen import Screen

from remote.cluster.hosts import Cluster
from remote.plan.plan import Plan, PlanError
from remote.record.lock import STOP
from remote.run.state import RunState, Verdict
from training.job import Job
from tui.messages import CheckHosts, StartRun
from tui.screens.dialogs import (
    Dialog,
    HelpDialog,
    Leave,
    LeaveDialog,
    QuitDialog,
    TooSmall,
    too_small,
)
from tui.screens.doctor import Checking, DoctorScreen
from tui.screens.launch import LaunchScreen
from tui.screens.run import RunScreen, Session

TICK = 0.5
"""Seconds between two drawings."""
BLURRED = 4
"""Of the ticks, every so many draws while the terminal has no focus."""
GARBAGE = 50_000
"""New objects after which Python looks for garbage: looking through all lines of a log takes as
long as several frames."""
ENDING = 15.0
"""Seconds that a run has to end when its dashboard is gone."""
MOUNTING = 0.01
"""Seconds until it is looked again whether a screen has its widgets."""
STOPPED = 130
"""Exit code where a person left a run that had not ended."""


@dataclass(frozen=True)
class Launch:
    """What the command line has said. `selected` are the hosts of `cluster` that it chose.

    `make_plan` raises PlanError where the job does not fit the hosts; `begin` OSError where the run
    cannot be recorded. `check`, where there is one, makes checks of the hosts.
    `at_once`: start without the form. `attached`: a run that one has come back to, watched first.
    `leavable`: a run can go on without the dashboard.
    """

    cluster: Cluster
    selected: Cluster
    job: Job
    make_plan: Callable[[Cluster, Job], Plan]
    begin: Callable[[Plan], Session]
    at_once: bool = False
    runs_dir: Path = Path("runs")
    check: Callable[[Plan], Checking] | None = None
    attached: Session | None = None
    leavable: bool = True


S = TypeVar("S", bound=Checking)


class Listener(threading.Thread, Generic[S]):
    """Iterates the batches of a run or of checks until the last. A daemon: leaving does not wait
    for a host that hangs."""

    def __init__(self, session: S) -> None:
        super().__init__(name="listener", daemon=True)
        self.session = session
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for _ in self.session.batches():
                pass
        except BaseException as error:  # noqa: BLE001 - the app raises it on its own thread
            self.error = error


class RankboardApp(App[None]):
    """The dashboard. After `run`, `exit_code` is the last run's verdict, and `states` are those of
    all runs, in order."""

    TITLE = "rankboard"
    CSS = "ToastRack { align-horizontal: right; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", show=False, priority=True)
    ]

    def __init__(self, launch: Launch) -> None:
        super().__init__()
        self._launch = launch
        self._listener: Listener[Session] | None = None
        self._doctor: Listener[Checking] | None = None
        self._leaving = self._abandoned = self._exiting = False
        self._ticks = 0
        self.states: list[RunState] = []

    @property
    def exit_code(self) -> int:
        """The verdict of the last run; 130 where a person left it before its end; 0 where none
        ran."""
        if self._listener is None:
            return self.return_code or 0
        session = self._listener.session
        if session.detached:
            return Verdict.LOST.value if session.cut_off else self.return_code or 0
        verdict = session.state.verdict
        return (verdict.value if verdict else STOPPED) or self.return_code or 0

    @property
    def live(self) -> bool:
        """Whether a run goes on."""
        return self._listener is not None and self._listener.is_alive()

    def on_mount(self) -> None:
        gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
        if not self.is_headless:
            for number, act in (
                (signal.SIGINT, self._interrupt),
                (STOP, self._interrupt),
                (signal.SIGQUIT, self._stop_now),
                (signal.SIGTERM, self._terminate),
                (signal.SIGHUP, self._hang_up),
            ):
                asyncio.get_running_loop().add_signal_handler(number, act)
        if self._launch.attached:
            self._watch(self._launch.attached)
        elif self._launch.at_once:
            self._start(self._launch.selected, self._launch.job)
        else:
            self._show_form()
        self.set_interval(TICK, self._on_time)

    def _show_form(self, error: str = "") -> None:
        launch = self._launch
        self.push_screen(
            LaunchScreen(launch.cluster, launch.selected, launch.job, launch.make_plan, error)
        )

    def _start(self, cluster: Cluster, job: Job) -> None:
        """Begin a run, or say in the form why there is none."""
        self._launch = replace(self._launch, selected=cluster, job=job)
        try:
            plan = self._launch.make_plan(cluster, job)
            session = self._launch.begin(plan)
        except (PlanError, OSError) as error:
            self._show_form(str(error))
            return
        self._watch(session)

    def _watch(self, session: Session) -> None:
        self._listener = Listener(session)
        self._listener.start()
        self.states.append(session.state)
        self.push_screen(RunScreen(session))

    # Time

    def _on_time(self) -> None:
        self._ticks += 1
        if self.app_focus or self._leaving or self._ticks % BLURRED == 0:
            self.tick()

    def tick(self) -> None:
        """Draw what has changed, and go once a run that one wants to leave has ended."""
        if self._doctor and self._doctor.error:
            raise self._doctor.error
        if self._listener is None or not self.is_running:
            return
        if self._listener.error:
            raise self._listener.error
        if not self.live and isinstance(self.screen, Dialog):  # its question is out of date
            self.screen.dismiss(Leave.STAY)
        for screen in self.screen_stack:
            if (
                isinstance(screen, RunScreen)
                and screen.is_mounted
                and not isinstance(self.screen, TooSmall)
            ):
                screen.tick()
        if not self.live and (self._leaving or self._listener.session.detached):
            self.exit()

    def on_resize(self, event: Resize) -> None:
        small = too_small(event.size)
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    # Ways from screen to screen

    def on_start_run(self, message: StartRun) -> None:
        if not self.live and not self._exiting:
            self.pop_screen()
            self._start(message.cluster, message.job)

    def on_check_hosts(self, message: CheckHosts) -> None:
        if self._launch.check and not self.live and not self._exiting:
            begin = partial(self._check, self._launch.check, message)
            self.push_screen(DoctorScreen(begin(), begin))

    def _check(self, check: Callable[[Plan], Checking], wanted: CheckHosts) -> Checking:
        """Begin checks of hosts."""
        self._doctor = Listener(check(self._launch.make_plan(wanted.cluster, wanted.job)))
        self._doctor.start()
        return self._doctor.session

    def on_new_run(self) -> None:
        if not self.live and not self._exiting:
            self.pop_screen()
            self._show_form()

    def action_command_palette(self) -> None:
        """All commands. Not two lists over each other, as Textual opens where the key is pressed
        twice quickly: it fails."""
        if not isinstance(self.screen, (CommandPalette, Dialog)):
            self.push_screen(CommandPalette())

    def get_system_commands(self, screen: Screen[Any]) -> Iterator[SystemCommand]:
        """What the list of all commands has: the keys of this screen, then Textual's own
        commands."""
        textuals = {
            binding.action for binding in Screen.BINDINGS if isinstance(binding, Binding)
        }  # to move, to copy
        seen = {"Quit", "Keys"}  # the first is there for every screen; the second is what `?` shows
        for node, binding, enabled, _ in screen.active_bindings.values():
            known = binding.action in textuals or binding.description in seen
            if node is screen and enabled and binding.description and not known:
                seen.add(binding.description)
                act = partial(self.run_action, binding.action, node)
                yield SystemCommand(
                    binding.description, f"key {self.get_key_display(binding)}", act
                )
        yield SystemCommand("Quit", "asks first while a run goes on", self.action_quit)
        yield from (
            command for command in super().get_system_commands(screen) if command.title not in seen
        )

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save the screen as SVG in the folder of the run, or where there is none in the current
        one, and say where."""
        shown = (
            self._launch.runs_dir / self._listener.session.plan.run
            if self._listener
            else Path.cwd()
        )
        folder = shown if shown.is_dir() else Path.cwd()
        try:
            saved = self.save_screenshot(filename, path or str(folder), time_format)
        except OSError as error:
            self.notify(f"cannot write a screenshot: {error}", severity="error", markup=False)
            return None
        self.notify(f"screenshot: {saved}", markup=False)
        return saved

    def action_help(self) -> None:
        self.push_screen(HelpDialog())

    # The way out

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """As Textual does, but for keys that come after `exit`."""
        return not self._exiting and await super().run_action(action, default_namespace, namespaces)

    def exit(
        self, result: None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        """End the dashboard, once all screens have their widgets: from then on Textual adds none,
        and a screen that had none yet would not find them."""
        self._exiting = True
        if all(screen.is_mounted for screen in self.screen_stack):
            super().exit(result, return_code, message)
        else:
            self.set_timer(MOUNTING, partial(self.exit, result, return_code, message))

    async def on_event(self, event: Event) -> None:
        """As Textual does, but for keys that were pressed before the dialog that they would answer
        was drawn."""
        if not (
            isinstance(event, Key)
            and isinstance(self.screen, Dialog)
            and event.time < self.screen.drawn
        ):
            await super().on_event(event)

    async def action_quit(self) -> None:
        """Quit; while a run goes on, ask first. Nothing that is pressed twice answers the question
        whether to stop it."""
        if not self.live:
            self.exit()
        elif isinstance(self.screen, LeaveDialog):
            self._abandon()
        elif not isinstance(self.screen, QuitDialog):
            self.push_screen(LeaveDialog() if self._leaving else self._question(), self._answered)

    def _question(self) -> QuitDialog:
        assert self._listener
        session = self._listener.session
        waits = bool(session.plan.policy.max_restarts)
        return QuitDialog(keep=session.keep, leavable=self._launch.leavable, waits=waits)

    def _answered(self, answer: Leave | None) -> None:
        match answer:
            case Leave.STOP:
                self._stop()
            case Leave.STOP_AND_QUIT:
                self._stop()
                self._leaving = True
            case Leave.DETACH:
                self._detach()
            case Leave.NOW:
                self._abandon()

    def _interrupt(self) -> None:
        """A signal: stop the run and quit when it has ended; a second time, quit at once."""
        if self._leaving or not self.live:
            self._abandon()
            return
        self._leaving = True
        self._stop()
        self.notify("stopping the run; ctrl+c leaves without waiting for its end")

    def _stop_now(self) -> None:
        """Stop the run, without the time that ranks have to end by themselves, and quit when it has
        ended."""
        if self.live:
            self._leaving = True
            self._stop(now=True)
        else:
            self._abandon()

    def _terminate(self) -> None:
        """The process is to end, as at a shutdown of this machine: a run that is kept goes on."""
        if self._listener and self._listener.session.keep and not self._leaving:
            self.exit()  # see `finish`
        else:
            self._interrupt()

    def _hang_up(self) -> None:
        """The terminal is gone: end the run, then the process, at once. Textual's own way out waits
        for ever to restore it."""
        self.finish()
        os._exit(STOPPED)

    def _abandon(self) -> None:
        """Go without waiting for the end of the run; its hosts end it by themselves."""
        self._abandoned = True
        self.exit()

    def finish(self) -> None:
        """After `run`: where the dashboard ended under a live run (its terminal is gone), leave it
        if it is to be kept, else stop it; and wait for the session's end."""
        if self._doctor and self._doctor.is_alive():
            self._doctor.session.stop()
            self._doctor.join(ENDING)
        if self._listener and self.live and not self._abandoned:
            if self._listener.session.keep and not self._leaving:
                self._listener.session.detach()
            self._stop()  # what could not be left is stopped
            self._listener.join(ENDING)

    def _detach(self) -> None:
        """Go once the session has let go of the run."""
        if self._listener is not None:
            self._listener.session.detach()
            self.notify("leaving the run to its hosts, once all ranks have been started")

    def _stop(self, *, now: bool = False) -> None:
        if self._listener is not None:
            self._listener.session.stop(now=now)
