"""What one does with the charts of a run: choose them, keep them, pin the run, note a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from textual.screen import Screen

from remote.record.step_notes import StepNote
from remote.run.run_state import RunState
from tui.charts.chart_list import ChartList, ChartPick, ChartUse, list_charts
from tui.charts.drawing import Baseline
from tui.charts.kinds import ChartKind, available
from tui.charts.panel import Charts
from tui.kit.choice_dialogs import CheckUse, TextPrompt
from tui.kit.messages import NoteStep, PinRun, ReadBaseline, ReadCommand, ReadStepNotes
from tui.kit.panel import Panel
from tui.kit.run_session import LiveScreen, RunSession
from tui.run.body import RunBody
from tui.run.chart_grid import ChartGrid
from tui.run.ranks_panel import RanksPanel

PAGE_NOTE_SECONDS = 2.0
"""For how long it is told which charts are shown."""


class ChartActions(LiveScreen, Screen[None]):
    """A screen with the panels of a run."""

    session: RunSession
    _body: RunBody

    def _focus(self, panel: Panel) -> None:
        """Go to a panel, which may be hidden."""
        raise NotImplementedError

    # The baseline and the notes

    def read_marks(self) -> None:
        """Ask for the run that is pinned, for the notes at steps, and for the command of the
        run."""
        self.read_baseline()
        self.read_notes()
        self.read_command()

    def read_command(self) -> None:
        """Ask for the command of the run, if there is room for the card that shows it."""
        if self._body.has_card:
            run = self.session.state
            self.post_message(ReadCommand(run.plan, run, self._take_command))

    def _take_command(self, command: str) -> None:
        self._body.command = command
        self._draw_if_shown()

    def _draw_if_shown(self) -> None:
        """Draw what was read. That takes a while: the screen may be gone, or not be there yet."""
        if self.is_mounted and self.is_attached:
            self.tick()

    def read_baseline(self) -> None:
        """Ask for the run that is pinned."""
        self.post_message(ReadBaseline(self._take_baseline))

    def _take_baseline(self, name: str, run: RunState | None) -> None:
        self._body.show_baseline(Baseline(name, run) if run else None)
        self._draw_if_shown()

    def read_notes(self) -> None:
        """Ask for the notes at steps."""
        self.post_message(ReadStepNotes(self._take_notes))

    def _take_notes(self, notes: Sequence[StepNote]) -> None:
        if notes != self._body.notes:
            self._body.show_notes(notes)
            self._draw_if_shown()

    def action_note_step(self) -> None:
        """Let the user write a note at the step of the cursor, or else at the newest one."""
        step = self._body.cursor_step
        if step is None:
            step = self.session.state.step
        texts = {note.step: note.text for note in self._body.notes}
        prompt = TextPrompt(
            f"note at step {step}",
            "It is marked with N in the charts; an empty one removes it.",
            texts.get(step, ""),
        )
        self.app.push_screen(prompt, partial(self._write_note, step))

    def _write_note(self, step: int, text: str | None) -> None:
        if text is not None:
            self.post_message(NoteStep(step, text, self.read_notes))

    # Charts

    def action_charts(self) -> None:
        """List all charts; what is chosen takes the place of the focused chart."""
        panel = self._body.chart_in_focus
        with self.session.lock:
            charts = list_charts(self.session.state, self._body.deck)
        chart_list = ChartList(charts, panel.kind.id, self._show_grid)
        self.app.push_screen(chart_list, partial(self._show_picked, panel))

    def action_page_charts(self, step: int) -> None:
        """Show the next charts, or (-1) those before."""
        with self.session.lock:
            first, last, count = self._body.turn_page(step, self.session.state)
        numbers = f"charts {first} to {last}" if last > first else f"chart {first}"
        text = f"{numbers} of {count}" if count else "no charts yet"
        self.notify(text, timeout=PAGE_NOTE_SECONDS, markup=False)
        self.tick()

    def chart_commands(self) -> Iterator[tuple[str, str, Callable[[], None]]]:
        """Yield the charts for the list of commands: their names, what they show, and how."""
        with self.session.lock:
            kinds = available(self.session.state)
        panel = self._body.chart_in_focus
        for kind in kinds:
            pick = ChartPick(ChartUse.PLACE, kind)
            yield kind.title, kind.help, partial(self._show_picked, panel, pick)

    def _show_picked(self, panel: Charts, pick: ChartPick | None) -> None:
        match pick:
            case ChartPick(ChartUse.PLACE, ChartKind() as kind):
                with self.session.lock:
                    panel = self._body.put_chart(kind, panel, self.session.state)
                self._focus(panel)
            case ChartPick(ChartUse.KEEP):
                self.action_keep_layout()
            case ChartPick(ChartUse.RESET):
                self.action_reset_charts()

    def _show_grid(self, kinds: tuple[ChartKind, ...]) -> None:
        """Show several charts, over the list from which they were chosen."""
        body = self._body
        self.app.push_screen(ChartGrid(self.session, kinds, body.deck, body.baseline, body.notes))

    def action_pin(self) -> None:
        """Pin the run as the baseline of all charts, or take its pin away."""
        self.post_message(PinRun(done=self.read_baseline))

    def action_keep_layout(self) -> None:
        """Remember the charts and their views for runs of this kind."""
        self._body.deck.keep()
        self.notify(
            f"runs of {self._body.deck.run_kind} show these charts and columns", markup=False
        )

    def action_reset_charts(self) -> None:
        """Show the standard charts, and forget those that were kept."""
        self._body.deck.reset()
        with self.session.lock:
            self._body.redraw_charts(self.session.state)
        self.notify("the standard charts and columns are back", markup=False)
        self.tick()

    def on_ranks_panel_layout_chosen(self, message: RanksPanel.LayoutChosen) -> None:
        """Draw the table with other columns; keep or reset the layout if that was asked for."""
        match message.use:
            case CheckUse.KEEP:
                self.action_keep_layout()
            case CheckUse.RESET:
                self.action_reset_charts()
        self.tick()
