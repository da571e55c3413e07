"""What every dashboard does: it draws what has changed, opens the screens, and takes the keys."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rich.console import RenderableType
from textual import work
from textual._compositor import ChopsUpdate
from textual.actions import ActionParseResult
from textual.app import SystemCommand
from textual.binding import Binding
from textual.dom import DOMNode
from textual.events import Event, Key, MouseDown, Resize
from textual.message import Message
from textual.notifications import Notification, Notify
from textual.screen import Screen
from textual.widgets import Input

from remote.fair_lock import frame_gate
from remote.format import count
from remote.plan.serialize import OtherFormat
from remote.record.events_file import RunFolderError
from tui.app.command_list import ActionPalette, list_commands
from tui.app.file_saving import FileSaver, find_shown_session
from tui.app.quitting import DashboardRuns, Quitting
from tui.app.run_marks import RunMarks
from tui.kit import keymap
from tui.kit.actions import ACTIONS_BY_NAME, KeyPlace
from tui.kit.bindings import bindings, focus_places, key_of, named_keys
from tui.kit.dialogs import Dialog, Leave, TooSmall, is_too_small
from tui.kit.interpreter import keep_heap_small, keep_loaded_modules, switch_threads_often
from tui.kit.key_names import format_key
from tui.kit.messages import (
    CompareRuns,
    CopyCommand,
    CopyText,
    NoteStep,
    PinRun,
    ReadBaseline,
    ReadCommand,
    ReadRecord,
    ReadStepNotes,
    SaveChart,
    SaveText,
    ScreenRequest,
    ShowChecks,
    ShowRank,
)
from tui.kit.refusals import PROMPTS, Refusals
from tui.kit.run_session import LiveScreen, RunSession
from tui.kit.themes import InkedApp, find_next_theme, remember_theme, use_themes
from tui.kit.widgets.changes import ChangedCells, TerminalCells

TICK = 0.5
"""Seconds between two drawings."""
TICKS_IF_BLURRED = 4
"""Without focus, the terminal is drawn only at one of this many ticks."""
REMARK_SECONDS = 15.0
"""Seconds for which it is shown what is wrong with the user's keys."""
SECOND_INTERRUPT = 3.0
"""Seconds within which a second ctrl+c quits where no run is live."""
LEAST_SHOWN = 1.0
"""Seconds for which a message is shown at least."""
MOUNTING = 0.01
"""Seconds between two looks at whether a screen has its widgets."""
RunsT = TypeVar("RunsT", bound=DashboardRuns)


class LateNotification(Notification):
    """A message whose time may be over before it is shown: on a busy machine, or as the clock was
    set."""

    @property
    def time_left(self) -> float:
        """Return for how many seconds it is shown, which are never none: a timer of Textual with
        less than 0 seconds is a loop without end."""
        return max(super().time_left, LEAST_SHOWN)

    @property
    def has_expired(self) -> bool:
        """Return True if its time is over."""
        return super().time_left <= 0.0


class Dashboard(InkedApp[None], Generic[RunsT]):
    """A dashboard over some runs.

    After `run`, `exit_code` is that of the command, and `finish` ends what is live.
    """

    TITLE = "rankboard"
    # A message is a line above those of the keys and of a replay; longer ones grow upwards.
    CSS = """
    ToastRack { align-horizontal: right; margin-bottom: 2; }
    Toast { width: auto; max-width: 100%; margin-top: 0; padding: 0 1; }
    """
    BINDINGS = bindings(KeyPlace.EVERYWHERE)
    ENABLE_COMMAND_PALETTE = False  # its key is one of ours
    ESCAPE_TO_MINIMIZE = False  # so is this one, which leaves a search first

    sends_commands: ClassVar[bool] = True
    """Whether anything can be asked of the runs."""
    opens_runs = False
    """Whether a recorded run can be opened by its name."""

    def __init__(self, runs: RunsT) -> None:
        super().__init__()
        self.runs = runs
        user_keys = keymap.read(keymap.path())
        self.keymap = user_keys.keys
        """The keys that the user has chosen."""
        self._key_remarks = user_keys.remarks
        self._files = FileSaver(self, runs)
        self._marks = RunMarks(self, runs)
        self.quitting = Quitting(self, runs)
        self._exiting = False
        self._ticks = 0
        self._screen_changed_at = 0.0
        self._written = TerminalCells()
        self._has_lost_frame = False
        """Whether something was to be drawn while a batch of updates was open."""
        self.refusals = Refusals()
        """What keys were refused."""
        self._interrupted_at = -math.inf
        use_themes(self)

    def on_mount(self) -> None:
        switch_threads_often()
        if not self.is_headless:
            self.quitting.handle_signals()
        self.open()
        if self._key_remarks:  # a screen has to be there
            remarks = "\n".join(self._key_remarks)
            self.notify(remarks, severity="warning", timeout=REMARK_SECONDS, markup=False)
        if not self.is_headless:  # a process of tests begins many apps
            keep_loaded_modules()
            keep_heap_small()
        self.set_keymap(dict(self.keymap))
        self.theme_changed_signal.subscribe(self, remember_theme)
        # At once: as a message, it would come behind the requests that it puts out of date.
        self.screen_change_signal.subscribe(self, self._note_screen_change, immediate=True)
        self.set_interval(TICK, self._on_tick)

    def open(self) -> None:
        """Show the first screen."""
        raise NotImplementedError

    # Drawing

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Draw an update, of which only changed cells are written."""
        if renderable is not None and self._batch_count:
            # Textual drops it here, and yet takes what it shows as drawn.
            self._has_lost_frame = True
        if isinstance(renderable, ChopsUpdate):
            renderable = ChangedCells(renderable, self._written)
        elif renderable is not None:
            # Any other update writes cells by itself, so that it is not known what the terminal
            # shows.
            self._written.forget()
        super()._display(screen, renderable)

    def _end_batch(self) -> None:
        """End a batch of updates, and draw what was held up or dropped while it was open."""
        super()._end_batch()
        if self._batch_count or not self._screen_stack:
            return
        if self._has_lost_frame:
            self._has_lost_frame = False
            self.screen.refresh()
        # Textual wakes the app only. A screen that had nothing to do meanwhile would sleep on
        # until its next message, which may never come.
        self.screen.check_idle()

    def _on_tick(self) -> None:
        self._ticks += 1
        if self.app_focus or self.quitting.is_leaving or self._ticks % TICKS_IF_BLURRED == 0:
            self.tick()

    def tick(self) -> None:
        """Draw what has changed, and exit once the work that the user wants to leave has ended."""
        if not self.is_running:
            return
        self.runs.raise_errors()
        is_live = self.runs.live
        if not is_live and isinstance(self.screen, Dialog) and self.screen.of_live:
            self.screen.dismiss(Leave.STAY)  # the question is out of date
        is_hidden = isinstance(self.screen, TooSmall)
        frame_gate.close()
        # Also those beneath the top one, which a dialog does not cover as a whole.
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen) and screen.is_mounted and not is_hidden:
                screen.tick()
        self.call_after_refresh(frame_gate.open)
        if not is_live and self.is_left:
            self.exit()

    def on_notify(self, event: Notify) -> None:
        """Show a message in place of the one before, so that they hide a line at the most."""
        # Textual's own handler comes next, and adds the new one.
        self.clear_notifications()
        event.notification = LateNotification(**vars(event.notification))

    def on_resize(self, event: Resize) -> None:
        is_small = is_too_small(event.size)
        if is_small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not is_small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    # Keys

    def action_next_theme(self) -> None:
        """Take the next of our themes."""
        self.theme = find_next_theme(self.theme)

    def action_command_palette(self) -> None:
        """Open the list of all commands, once: two lists over each other fail in Textual."""
        if not isinstance(self.screen, (ActionPalette, Dialog)):
            self.push_screen(ActionPalette())

    def get_system_commands(self, screen: Screen[Any]) -> Iterator[SystemCommand]:
        """List all commands."""
        for command in list_commands(self, screen, super().get_system_commands(screen)):
            yield SystemCommand(command.title, command.help, command.run, command.is_shown)

    def get_key_display(self, binding: Binding) -> str:
        """Return how the key of a binding is written."""
        return format_key(binding.key)

    def action_help(self) -> None:
        from tui.app.help import HelpDialog

        self.push_screen(HelpDialog(self, focus_places(self.screen)))

    # Quitting

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command."""
        return self.runs.exit_code(self.return_code or 0)

    @property
    def is_left(self) -> bool:
        """Return True if the user has left, and only the end of the work is missing."""
        return self.quitting.is_leaving

    def show(self) -> None:
        """Show the dashboard until the user has left, then end what is live."""
        self.quitting.run_app()

    def finish(self) -> None:
        """After `run`: end the runs that are live although the dashboard is gone."""
        self.quitting.finish()

    async def action_quit(self) -> None:
        """Quit; ask first while a run is live."""
        self.quitting.quit(self.make_quit_dialog, self.take_answer)

    async def action_interrupt(self) -> None:
        """Copy the selected text. Without any, quit; where no run is live, the second time only."""
        selected_text = self._find_selected_text()
        if selected_text:
            self.copy_to_clipboard(selected_text)
            self.notify(f"copied {count(len(selected_text), 'character')}", timeout=2)
            return
        now = Message().time
        is_second = now < self._interrupted_at + SECOND_INTERRUPT
        self._interrupted_at = now
        if self.runs.live or is_second:
            await self.action_quit()
        else:
            self.notify("ctrl+c quits if you press it again", timeout=SECOND_INTERRUPT)

    def _find_selected_text(self) -> str:
        """Return what is selected in the focused field, or else on the screen."""
        if isinstance(self.focused, Input):
            return self.focused.selected_text
        return self.screen.get_selected_text() or ""

    def make_quit_dialog(self) -> Dialog:
        """Return the question how to leave what is live. Only dashboards with live runs ask it."""
        raise NotImplementedError

    def take_answer(self, answer: Leave | None) -> None:
        """Do what the user has answered to that question."""
        self.quitting.take_answer(answer)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action, unless its key comes after `exit`."""
        return not self._exiting and await super().run_action(action, default_namespace, namespaces)

    def exit(
        self, result: None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        """End the dashboard, once all screens have their widgets: without them they would fail."""
        self._exiting = True
        if all(screen.is_mounted for screen in self.screen_stack):
            super().exit(result, return_code, message)
        else:
            self.set_timer(MOUNTING, partial(self.exit, result, return_code, message))

    # Screens

    def _note_screen_change(self, screen: Screen[Any]) -> None:
        """Remember when another screen came: what was asked before does not count any more."""
        self._screen_changed_at = Message().time

    def on_key(self, event: Key) -> None:
        """Say that a key does nothing here, and why if the screen knows that."""
        names = [name for name in ACTIONS_BY_NAME if event.key in named_keys(self, name)]
        reasons: Mapping[str, str] = getattr(self.screen, "why_not", {})
        reason = next((reasons[name] for name in names if name in reasons), "")
        active = self.screen.active_bindings.get(event.key)
        # Without an id, a key is Textual's own, such as one that scrolls.
        if active is not None and active.enabled and (active.binding.id or not reason):
            return
        if isinstance(self.screen, TooSmall):
            return
        if not PROMPTS.isdisjoint(names):
            self.refusals.refuse_prompt(event.time)
        help_key = key_of(self, "help")
        text = reason or f"{format_key(event.key)} does nothing here; {help_key} lists the keys"
        if self.refusals.is_new(text, event.time):
            self.notify(text, markup=False)

    async def on_event(self, event: Event) -> None:
        """Handle an event, unless it comes too late or too early."""
        if not self._is_out_of_date(event):
            await super().on_event(event)

    def _is_out_of_date(self, event: Event) -> bool:
        """Return True if an event asks too late for another screen, or if a key or button was
        pressed before its dialog was drawn."""
        if isinstance(event, Key) and not event.is_forwarded and self._is_stray_text(event):
            return True
        if isinstance(event, ScreenRequest):
            return self._exiting or event.time < self._screen_changed_at
        if isinstance(event, (Key, MouseDown)) and isinstance(self.screen, Dialog):
            return event.time < self.screen.drawn
        return False

    def _is_stray_text(self, event: Key) -> bool:
        """Return True if a key belongs to a text that no prompt has asked for."""
        return not isinstance(self.focused, Input) and self.refusals.takes(event)

    def _push_over_run(self, make_screen: Callable[[RunSession], Screen[Any]]) -> None:
        """Show a screen about the run that is shown."""
        session = find_shown_session(self)
        if session:
            self.push_screen(make_screen(session))

    def on_show_checks(self, message: ShowChecks) -> None:
        from tui.doctor.screen import DoctorScreen

        self._push_over_run(DoctorScreen)

    def on_show_rank(self, message: ShowRank) -> None:
        from tui.run.rank_screen import RankScreen

        asks = self.sends_commands
        self._push_over_run(lambda session: RankScreen(session, message.rank, can_ask=asks))

    def on_show_stacks(self) -> None:
        from tui.run.stacks_screen import StacksScreen

        self._push_over_run(partial(StacksScreen, can_ask=self.sends_commands))

    def on_compare_run(self) -> None:
        from tui.compare.pick_run import PickSimilarRun

        session = find_shown_session(self)
        if session:
            runs_dir = self.runs.runs_dir
            run = session.plan.run
            self.push_screen(PickSimilarRun(run, runs_dir), partial(self._compare, runs_dir / run))

    def _compare(self, folder: Path, other: str | None) -> None:
        """Compare a run, which comes first, with the one that the user has chosen, if any."""
        if other:
            self.post_message(CompareRuns((folder, folder.with_name(other))))

    def on_compare_runs(self, message: CompareRuns) -> None:
        from tui.compare.screen import CompareScreen  # whose figures take a while to load

        self.push_screen(CompareScreen(message.folders))

    def on_copy_command(self, message: CopyCommand) -> None:
        from tui.launch.command_line import find_lab_options, format_run_command

        limits = find_lab_options(message.run)
        self._copy(format_run_command(message.plan, limits, message.without))

    def on_read_command(self, message: ReadCommand) -> None:
        from tui.launch.command_line import find_lab_options, format_run_command

        message.take(format_run_command(message.plan, find_lab_options(message.run)))

    def on_copy_text(self, message: CopyText) -> None:
        self._copy(message.text)

    def _copy(self, text: str) -> None:
        self.copy_to_clipboard(text)
        self.notify(f"copied: {text}", markup=False)

    # Files

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save the screen as SVG."""
        return self._files.save_screenshot(filename, path, time_format)

    def on_save_text(self, message: SaveText) -> None:
        self._files.save_text(message)

    def on_save_chart(self, message: SaveChart) -> None:
        self.run_worker(self._files.save_chart(message), exit_on_error=True)

    def on_pin_run(self, message: PinRun) -> None:
        self._marks.pin(message)

    def on_note_step(self, message: NoteStep) -> None:
        self._marks.note_step(message)

    def on_read_step_notes(self, message: ReadStepNotes) -> None:
        self._marks.read_notes(message)

    @work
    async def on_read_baseline(self, message: ReadBaseline) -> None:
        await self._marks.read_baseline(message)

    def on_read_record(self, message: ReadRecord) -> None:
        self.run_worker(self._read_record(message))

    async def _read_record(self, message: ReadRecord) -> None:
        curves = None
        with suppress(RunFolderError, OtherFormat):  # a coarse chart stays
            curves = await asyncio.to_thread(message.read, self.runs.runs_dir / message.name)
        message.take(curves)
