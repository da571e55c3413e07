"""The screen of a study: its cells, and the run under way."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import count, duration
from remote.sanitise import plain
from remote.study import estimate
from remote.study.alike_settings import find_alike_setting, find_alike_settings
from remote.study.conclusion import SPLIT_REASON, guess_text
from remote.study.guessing import find_guess_loss
from remote.study.results import compute_results
from remote.study.runner import StudyRun, StudyRunner
from remote.study.wording import label_name
from tui.home.history import RecordedStudy
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of
from tui.kit.choice_dialogs import TextPrompt
from tui.kit.inks import MUTED
from tui.kit.messages import CopyText, RepeatStudy, RetryStudy, ShowCell, ShowRun
from tui.kit.run_session import LiveScreen
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import justify, progress_line
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.phase import phase_look
from tui.kit.widgets.verdict_strip import NextKey, VerdictStrip, fold_line
from tui.run.components.header import RunHeader
from tui.run.components.header_lines import BADGE_INKS, SEVERITY_STYLES
from tui.study.cell_rows import (
    SIGN,
    SPACE,
    columns,
    fold_same_cells,
    lay_out_cells,
    make_fact_columns,
    rows,
)
from tui.study.cell_screen import describe_cells, list_run_lines
from tui.study.cell_table import CellGroup, describe_same
from tui.study.longer_study import LongerStudy, find_longer_study
from tui.study.loss_panel import LossPanel
from tui.study.text.run_texts import run_number
from tui.study.verdict_text import (
    StudyVerdict,
    judge_running,
    judge_study,
    name_cell,
    name_place,
    name_trial,
)

TALL = 16
"""Lines of the screen from which on there is a verdict, and all of the question."""
ROOMY = 30
"""Lines from which on there are the runs of a row, and a verdict in all its words."""
UNFOLD, FOLD = "Unfold rows", "Fold rows"
"""What a key does with the rows of cells that have the same values."""


class StudyScreen(LiveScreen, Screen[None]):
    """All cells of a study, the run under way, and the answer so far. `tick` draws what has
    changed."""

    CSS = """
    StudyScreen #title { height: auto; min-height: 2; padding: 0 1; background: $panel; }
    StudyScreen VerdictStrip { max-height: 40%; }
    StudyScreen ChoiceTable { max-height: 60%; min-height: 3; padding: 0 1; }
    StudyScreen.-over.-roomy ChoiceTable { margin: 1 0; }
    StudyScreen #cell { height: auto; max-height: 45%; padding: 0 1; display: none; }
    StudyScreen.-roomy #cell { display: block; }
    StudyScreen #cell {
        border-top: solid $ink-rule; border-title-color: $text-muted;
        scrollbar-size-vertical: 1;
    }
    StudyScreen #cell Static { height: auto; }
    StudyScreen #run { height: auto; border-top: solid $ink-rule; }
    StudyScreen #run RunHeader { background: $background; }
    StudyScreen.-low VerdictStrip { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (TALL, "-tall"), (ROOMY, "-roomy")]  # noqa: RUF012
    place = KeyPlace.STUDY
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, runner: StudyRunner | RecordedStudy) -> None:
        super().__init__()
        self.runner = runner
        self._clock = SessionClock()
        self._changes = -1
        self._says_little = False
        """True if all runs have ended, and still guess."""
        self._shows_all = False
        """Whether cells with the same values have a row each."""
        self._groups: list[CellGroup] = []
        """The cells of each row."""
        self._longer: LongerStudy | None = None
        """How the study can be made again once it is over; None if it cannot."""

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield VerdictStrip()
        yield ChoiceTable(())
        with VerticalScroll(id="cell", can_focus=False):
            yield Static(markup=False)
        with Container(id="run"):
            yield RunHeader()
        yield LossPanel(self.runner.runs_dir)
        yield KeyFooter()

    def on_mount(self) -> None:
        table = self.query_one(ChoiceTable)
        table.focus()
        self.watch(table, "cursor", self._show_cell, init=False)
        self.tick()

    def on_resize(self, event: Resize) -> None:
        # Columns depend on the room, so the table is made anew.
        self._changes = -1
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed."""
        current_run = self.runner.current
        with self.runner.lock:
            is_new = self._changes != self.runner.changes
            if is_new:
                self._changes = self.runner.changes
                self._progress = self.runner.progress.copy()
                self._is_over = self.runner.is_over
                self.set_class(self._is_over, "-over")
        with self.app.batch_update():
            if is_new:
                self._show_cells()
            run_seconds = self._show_run(current_run)
            verdict = self._judge(current_run, run_seconds)
            self._show_title(verdict, run_seconds)
            self._show_verdict(verdict, current_run)

    def _show_cells(self) -> None:
        table = self.query_one(ChoiceTable)
        self._result = result = compute_results(self._progress)
        self._says_little = self._is_over and bool(guess_text(result))
        self._longer = None
        if self._is_over:
            self._longer = find_longer_study(self._progress, self.runner.runs_dir)
        self.refresh_bindings()
        table_width = self.app.size.width - SPACE * 2 - SIGN
        # While runs are missing, rows would come together and part again.
        folds = self._is_over and not self._shows_all
        self._groups = fold_same_cells(result) if folds else [(row,) for row in result.cells]
        cell_table = lay_out_cells(result, self._groups, table_width)
        facts = make_fact_columns(result, self._groups, table_width - cell_table.width)
        table.styles.height = len(self._groups) + 1
        table.show(
            columns(cell_table) + facts.columns,
            [row + more for row, more in zip(rows(cell_table), facts.rows, strict=True)],
        )
        running_key = self._progress.running_cell
        if running_key and not table.is_cursor_placed:
            keys = [group[0].cell.key for group in self._groups]
            table.cursor = keys.index(running_key)
        self._show_cell()

    def _judge(self, run: StudyRun | None, run_seconds: float) -> StudyVerdict:
        """Return what came out of the study, or what it does now."""
        result, progress = self._result, self._progress
        if self._is_over:
            stop_reason = getattr(self.runner, "stop_reason", "")
            return judge_study(result, progress, stop_reason=stop_reason)
        seconds_left = estimate.remaining_seconds(progress, run_seconds)
        return judge_running(result, progress, self._describe_run(run), seconds_left)

    def _show_verdict(self, verdict: StudyVerdict, run: StudyRun | None) -> None:
        """Show the verdict, and which keys help."""
        next_keys = []
        if self._says_little and self._longer:
            next_keys += self._list_longer_keys(self._longer)
        if self.check_action("retry", ()):
            next_keys.append(NextKey(key_of(self.app, "retry"), self._describe_retry()))
        is_running_chosen = run is not None and run.trial.cell.key == self._chosen
        runs_text = "runs of this row"
        enter_text = "open this run" if is_running_chosen else f"open the {runs_text}"
        if len(self._chosen_group) > 1:
            enter_text = UNFOLD.lower()
        next_keys.append(NextKey(key_of(self.app, "open"), enter_text))
        if is_running_chosen:
            next_keys.append(NextKey(key_of(self.app, "cell"), runs_text))
        strip = self.query_one(VerdictStrip)
        title, reasons, proof = verdict.title, verdict.reasons, verdict.proof
        if verdict.brief_title and self.size.height < ROOMY:
            title, reasons = verdict.brief_title, verdict.brief_reasons
            proof = verdict.brief_proof
        strip.show(verdict.severity, title, reasons, next_keys, proof=proof)

    def _list_longer_keys(self, longer: LongerStudy) -> list[NextKey]:
        """Return the keys that make the study again: start it here, if that is possible."""
        copy_key = key_of(self.app, "copy-study-command")
        if not longer.can_start:
            return [NextKey(copy_key, f"copy the command with {longer.longer_length}")]
        repeat_text = f"run it again with {longer.longer_length} ({longer.describe_time()})"
        return [
            NextKey(key_of(self.app, "repeat-study"), repeat_text),
            NextKey(copy_key, "copy that command"),
        ]

    def _describe_run(self, run: StudyRun | None) -> str:
        """Return which run is under way: "run 5 of 12: ring, batch 20"."""
        number = run_number(self._progress)
        trial_key = run.trial.key if run else next(iter(self._progress.open), "")
        if not trial_key:
            return f"run {number} begins"
        name = name_trial(self._progress, trial_key)
        if run and run.is_left:
            return f"ending a run that an earlier call left: {name}"
        return f"run {number}: {name}"

    def _describe_retry(self) -> str:
        num_failed = self._progress.num_failed
        if num_failed:
            return "try it again" if num_failed == 1 else f"try the {num_failed} failed runs again"
        num_missing = len(self._progress.missing_trials())
        return (
            "make the missing run" if num_missing == 1 else f"make the {num_missing} missing runs"
        )

    def _show_cell(self) -> None:
        """Show the runs of the row under the cursor."""
        panel = self.query_one("#cell")
        study = self.runner.study
        group = self._chosen_group
        chosen_cells = [self._progress.cells[row.cell.key] for row in group]
        chosen_cell = chosen_cells[0]
        name = name_cell(chosen_cell.cell)
        if len(group) > 1:
            names = (describe_same(study, group), name_place(chosen_cell.cell, study.compare))
            name = ", ".join(filter(None, names))
        panel.border_title = Content(f" {plain(f'runs of {name}')} ")
        head, *lines = list_run_lines(self._progress, chosen_cells, self.app.size.width - 2)
        description = describe_cells([cell.cell for cell in chosen_cells])
        text = [Content.styled(f"{plain(description)}\n{plain(head)}", MUTED)]
        text += [Content(plain(line)) for line in lines]
        text += map(Content, self._alike_lines())
        panel.query_one(Static).update(Content("\n").join(text))
        loss_panel = self.query_one(LossPanel)
        guess_loss = find_guess_loss(self.runner.study) if self._says_little else math.nan
        loss_panel.show_cell(
            self._progress, chosen_cell, guess_loss=guess_loss, names_span=self._says_little
        )

    def _alike_lines(self) -> list[str]:
        """Return in which setting the chosen cell has the same values, and why."""
        alike = find_alike_setting(self._chosen_group[0].cell, find_alike_settings(self._result))
        if alike is None:
            return []
        name = label_name(alike.axis, alike.earlier_label)
        text = f"{palette.sign('alike')} {plain(name)}: within 0.1% in every run"
        # Else the strip says why.
        if self._says_little and alike.is_split_only:
            text += f", as {SPLIT_REASON}"
        return [text]

    def _show_run(self, run: StudyRun | None) -> float:
        """Show the run under way; return for how many seconds it has run."""
        self.query_one("#run").display = run is not None
        loss_panel = self.query_one(LossPanel)
        if run is None:
            loss_panel.show_run(None)
            return 0.0
        state = run.session.state
        # The session's thread takes in records meanwhile.
        with run.session.lock:
            now = self._clock.now(state)
            self.query_one(RunHeader).show(state)
            loss_panel.show_run(state)
        return max(0.0, now - state.started) if state.started else 0.0

    def _show_title(self, verdict: StudyVerdict, run_seconds: float) -> None:
        """Show the state as a badge, the name and the title, and below them how far the study is,
        or once it is over its question."""
        study = self.runner.study
        progress = self._progress
        width = self.app.size.width - 2
        num_done = progress.num_settled
        # With --until-stable there may be more runs than are planned.
        num_planned = len(study.trials())
        runs_text = f"{num_done} of {count(max(num_done, num_planned), 'run')}"
        times_text = f"{duration(progress.seconds + run_seconds)} of runs"
        if self._is_over and study.question:
            facts = f"{runs_text}, {duration(progress.seconds)}"
            second_line = self._join_question(plain(study.question), facts, width)
        else:
            share = num_done / max(num_done, num_planned, 1)
            second_line = progress_line(runs_text, share, times_text, width)
        badge = self._make_badge(verdict)
        title_text = f"{study.name}  {study.title}"
        whole_text = "; ".join(filter(None, (title_text, study.overrides_text)))
        if badge.cell_length + 2 + len(whole_text) <= width:
            title_text = whole_text
        title = Content.assemble(badge, "  ", plain(title_text)).truncate(width)
        self.query_one("#title", Static).update(Content("\n").join((title, Content(second_line))))

    def _join_question(self, question: str, facts: str, width: int) -> str:
        """Return a question with facts at the right edge of its last line, or below it. A low
        screen has no more than one line for both."""
        lines = [line.plain for line in fold_line(Content(question), width)]
        last_line = justify(lines[-1], facts, width)
        if facts in last_line:
            lines[-1] = last_line
        else:
            lines.append(facts)
        return "\n".join(lines) if self.size.height >= TALL else lines[-1]

    def _make_badge(self, verdict: StudyVerdict) -> Content:
        """Return what becomes of the study, or what is amiss with it, in the colour of that."""
        look = phase_look(self._name_state())
        text, style = look.text, look.style
        if verdict.badge:
            text = f"{palette.sign('slow')} {verdict.badge}"
        if verdict.severity in SEVERITY_STYLES:
            style = SEVERITY_STYLES[verdict.severity]
        return Content.styled(f" {text} ", f"bold {BADGE_INKS[style]}")

    def _name_state(self) -> str:
        """Return what becomes of the study, as a phase."""
        is_stopped = self.runner.is_stopped and not self.runner.is_refused
        if is_stopped:
            return "stopped" if self._is_over else "stopping"
        if not self._is_over:
            return "running"
        return "failed" if self._progress.num_failed > 0 else "finished"

    # Keys

    @property
    def _chosen_group(self) -> CellGroup:
        """Return the cells of the row under the cursor."""
        return self._groups[self.query_one(ChoiceTable).cursor]

    @property
    def _chosen(self) -> str:
        """Return the key of the cell under the cursor, or of the first one of its row."""
        return self._chosen_group[0].cell.key

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for what does nothing now: going back from a study that is under way here, a
        retry if nothing has failed or is missing, longer runs where they cannot be started."""
        if action == "retry":
            is_complete = self._progress.num_settled >= len(self.runner.study.trials())
            return self._is_over and (self._progress.num_failed > 0 or not is_complete)
        if action == "rows":
            return self._shows_all or any(len(group) > 1 for group in self._groups)
        if action == "repeat":
            return self._longer is not None and self._longer.can_start
        if action == "copy_command":
            return self._longer is not None
        return action != "back" or isinstance(self.runner, RecordedStudy)

    @property
    def names_now(self) -> Mapping[str, str]:
        """Return what keys do now, as the strip says it, where that is not their usual name."""
        rows_name = FOLD if self._shows_all else UNFOLD
        names = {"rows": rows_name}
        if len(self._chosen_group) > 1:
            names["open"] = rows_name
        return names

    def action_back(self) -> None:
        self.dismiss()

    def on_choice_table_chosen(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """Open the run under way of the cell, or the runs that it has."""
        current_run = self.runner.current
        if current_run and current_run.trial.cell.key == self._chosen:
            self.post_message(ShowRun(current_run.session.plan.run))
        else:
            self.action_cell()

    def action_repeat(self) -> None:
        """Ask how long the runs are to train, and make the study again."""
        longer = self._longer
        if longer is None:
            return

        def take_answer(text: str | None) -> None:
            if text is None:
                return
            length = longer.read_choice(text)
            if length:
                words = longer.list_words(length)
                self.post_message(RepeatStudy(longer.name, length, words))
            else:
                self.notify("write a whole number from 1 on", severity="error")

        title = f"run the study again with more {longer.length.setting}"
        suggestion = str(longer.longer_length.value)
        self.app.push_screen(TextPrompt(title, longer.describe_choice(), suggestion), take_answer)

    def action_copy_command(self) -> None:
        """Copy the command that makes the study again with longer runs."""
        if self._longer:
            words = self._longer.list_words(self._longer.longer_length)
            self.post_message(CopyText(shlex.join(["rankboard", *words])))

    def action_retry(self) -> None:
        self.post_message(RetryStudy(self.runner.study.name))

    def action_cell(self) -> None:
        """List the runs of the cell under the cursor; of a row of several, list these first."""
        if len(self._chosen_group) > 1:
            self.action_rows()
        else:
            self.post_message(ShowCell(self._chosen))

    def action_rows(self) -> None:
        """Show cells with the same values apart, or as one row again."""
        chosen_key = self._chosen
        self._shows_all = not self._shows_all
        self._show_cells()
        # The cursor stays on the cell, or on the row that has it now.
        for number, group in enumerate(self._groups):
            if chosen_key in {row.cell.key for row in group}:
                self.query_one(ChoiceTable).cursor = number
        self.tick()
