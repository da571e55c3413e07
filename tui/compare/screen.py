"""Runs beside each other: curves by step or by time, what differs, and what they came to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from msgspec import structs
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import count, percent
from remote.metrics.compare import ComparedRun, compare_runs
from remote.metrics.run import read_figures
from remote.plan.plan import Plan, PlanError, with_seed
from remote.plan.serialize import OtherFormat
from remote.record import marks
from remote.record.events_file import RunFolderError
from remote.record.read import load_plan
from remote.run.state.flaw import FlawKind
from remote.sanitise import plain
from tui.charts.chart import Chart
from tui.charts.chart_view import USUAL_SMOOTHING
from tui.charts.overlay import (
    LOSS,
    MEASURES,
    TEST_ACCURACY,
    TEST_LOSS,
    TRAINING_ACCURACY,
    CompareMeasure,
    MarkedCurves,
    mark_goal,
)
from tui.charts.plot_frame import PlotOptions
from tui.compare.fact_table import (
    FactTable,
    describe_common_work,
    describe_signs,
    draw_fact_table,
)
from tui.compare.headline import Headline, make_headline, shorten_name
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.background import run_in_background
from tui.kit.bindings import bindings, key_of
from tui.kit.inks import MUTED
from tui.kit.messages import CopyCommand, OpenRun, PinRun, RepeatRun
from tui.kit.palette import RUN_LETTERS
from tui.kit.themes import inks_of
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.verdict_strip import NextKey, Severity, VerdictStrip

WARN = "$text-warning"
BAR_CAPTION = "bars: from 0 to the largest value of the row"
LINES_PER_WARNING = 8
"""The verdict has a warning for so many lines of the screen, at most."""
LINES_BESIDE_TABLE = 24
"""Lines of the screen that are kept from the table, unless all of it is asked for: those of the
charts, which need about 15 with their frame, of the verdict, and of the title and the keys."""
TWO_CHARTS = 120
"""Columns from which on there is a second chart beside the first one."""
MARGIN_WIDTH = 4
"""Cells of a line that the padding and the scrollbar take, with one between it and the table."""
OVER_STEPS = PlotOptions("step", named=True)
OVER_TIME = PlotOptions("time since the first step", clock=True, named=True)


class CompareScreen(Screen[None]):
    """Two to eight recorded runs, compared with the first one. It reads them itself."""

    CSS = """
    CompareScreen #title {
        height: 1; padding: 0 1; background: $panel; text-style: bold; text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    CompareScreen .chart, CompareScreen #facts {
        border-top: solid $ink-rule; border-title-color: $text-muted;
    }
    CompareScreen VerdictStrip.-neutral {
        border-left: outer $accent; background: $accent 12%;
    }
    CompareScreen #charts { height: 1fr; min-height: 7; }
    CompareScreen .chart { width: 1fr; height: 1fr; }
    CompareScreen #second { display: none; margin: 0 0 0 1; }
    CompareScreen.-wide #second { display: block; }
    CompareScreen.-wide #second.-empty { display: none; }
    CompareScreen #facts {
        height: auto; max-height: 45%; padding: 0 1; scrollbar-size-vertical: 1;
    }
    CompareScreen.-all #facts { max-height: 60%; }
    CompareScreen #facts:focus { border-top: solid $primary; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (TWO_CHARTS, "-wide")]  # noqa: RUF012
    place = KeyPlace.COMPARE
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, folders: Iterable[Path]) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._compared: Sequence[ComparedRun] = ()
        self._names = [marks.name(folder) or folder.name for folder in self._folders]
        self._headline: Headline | None = None
        self._measure = LOSS
        self._by_time = True
        self._log_y: bool | None = None
        self._shows_all = False
        """Whether the table has all rows, or only those on which the verdict rests."""

    def compose(self) -> ComposeResult:
        yield Static(self._title(), id="title", markup=False)
        yield VerdictStrip()
        with Horizontal(id="charts"):
            for name in ("first", "second"):
                with Container(id=name, classes="chart"):
                    yield Chart(OVER_TIME)
        with VerticalScroll(id="facts"):
            yield Static(id="table", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(VerdictStrip).show(Severity.NEUTRAL, "reading the runs")
        self.query_one("#facts").focus()
        self._draw()
        # The colours of runs are not in the style sheet: those for a dark ground are others.
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        run_in_background(
            self, self._read, self._show_runs, self._show_error
        )  # long runs take seconds

    def _read(self) -> Sequence[ComparedRun]:
        return compare_runs([read_figures(folder) for folder in self._folders])

    def _show_runs(self, compared: Sequence[ComparedRun]) -> None:
        self._compared = compared
        self._headline = make_headline(compared, self._names)
        if self._are_tested:
            self._measure = TEST_ACCURACY
        self._draw()
        self.refresh_bindings()

    def _show_error(self, error: Exception) -> None:
        if not isinstance(error, (PlanError, RunFolderError, OtherFormat, OSError)):
            raise error
        title = "the runs cannot be compared"
        self.query_one(VerdictStrip).show(Severity.BAD, title, [str(error)])

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._draw)

    # Drawing

    def _draw(self) -> None:
        self._draw_chart("first", self._measure)
        self._draw_chart("second", self._second_measure)
        if not self._compared:
            return
        self._draw_verdict()
        room = self.size.width - MARGIN_WIDTH
        inks = inks_of(self.app.current_theme)
        self.set_class(self._shows_all, "-all")
        max_lines = None if self._shows_all else self.size.height - LINES_BESIDE_TABLE
        table = draw_fact_table(self._compared, self._names, room, inks, max_lines=max_lines)
        content = table.content
        hint = self._describe_rest(table)
        if hint:
            content += Content.styled(f"\n{hint}", MUTED)
        self.query_one("#table", Static).update(content)
        self.query_one("#facts").border_title = Content(f" {plain(self._table_title(room))} ")

    def _describe_rest(self, table: FactTable) -> str:
        """Say which key shows what the table leaves out, or hides it again; "" if there is no
        more than it shows."""
        key = key_of(self.app, "all-rows")
        if self._shows_all:
            return f"{key} hides what says little more, or has no room beside the charts"
        if table.num_folded:
            return f"{count(table.num_folded, 'more row')}: {key} shows all"
        return f"{key} shows what the rows mean" if table.has_notes else ""

    def _draw_chart(self, name: str, measure: CompareMeasure) -> None:
        """Draw the curves of a measure in the chart of this name."""
        pane = self.query_one(f"#{name}")
        runs = [compared.run for compared in self._compared]
        curves = measure.curves(runs, clock=self._by_time, smoothed=True)
        is_log = measure.is_log(curves)
        if name == "first" and self._log_y is not None:
            is_log = self._log_y
        title = self._chart_title(measure, is_log)
        pane.border_title = f" {title} "
        if not self._compared:
            return
        has_values = any(np.isfinite(curve.mean).any() for curve in curves)
        pane.set_class(name == "second" and not has_values, "-empty")
        marked = MarkedCurves(curves)
        goal = self._compared[0].goal
        if measure is TEST_ACCURACY:
            marked = mark_goal(curves, goal, clock=self._by_time)
        if marked.labels:
            pane.border_title = f" {title}  {palette.sign('test')} first at {percent(goal)}+ "
        options = structs.replace(
            OVER_TIME if self._by_time else OVER_STEPS, log_y=is_log, point_labels=marked.labels
        )
        pane.query_one(Chart).draw(marked.curves, options=options)

    @property
    def _second_measure(self) -> CompareMeasure:
        """Return what says most beside the first chart: the loss, of tests if one of the runs
        overfitted, or else the accuracy."""
        if self._measure is TEST_ACCURACY and self._has_overfitted:
            return TEST_LOSS
        if self._measure is not LOSS:
            return LOSS
        return TEST_ACCURACY if self._are_tested else TRAINING_ACCURACY

    @property
    def _has_overfitted(self) -> bool:
        flaws = [flaw for compared in self._compared for flaw in compared.run.flaws]
        return any(flaw.kind is FlawKind.OVERFITTED for flaw in flaws)

    @property
    def _are_tested(self) -> bool:
        """Return True if all runs have curves of tests: a single test would be a point."""
        return all(len(run.run.evaluations) > 1 for run in self._compared)

    def _table_title(self, room: int) -> str:
        """Return what the signs and bars of the table mean, and what all runs do."""
        caption = describe_signs(self._compared)
        common_work = describe_common_work(self._compared)
        for part in (BAR_CAPTION, f"all: {common_work}" if common_work else ""):
            if part and len(part) + len(caption) < room - 10:
                caption += f"   {part}"
        return caption

    def _draw_verdict(self) -> None:
        if not self._headline:
            return
        headline = self._headline
        warning_sign = palette.sign("slow")
        reasons = [
            Content.styled(f"{warning_sign} {plain(text)}", WARN) for text in headline.warnings
        ]
        max_warnings = max(2, self.size.height // LINES_PER_WARNING)
        if len(reasons) > max_warnings:
            more_text = f"… and {len(reasons) - max_warnings + 1} more warnings"
            reasons[max_warnings - 1 :] = [Content.styled(more_text, WARN)]
        if headline.caveat:
            reasons.append(Content.styled(f"{warning_sign} {plain(headline.caveat)}", WARN))
        strip = self.query_one(VerdictStrip)
        strip.show(headline.severity, self._inked_title(), reasons, self._next_keys())

    def _inked_title(self) -> Content:
        """Return the title of the verdict, with each run in the ink of its curve."""
        assert self._headline
        inks = inks_of(self.app.current_theme)
        title = Content(plain(self._headline.title))
        for place, name in enumerate(self._names):
            letter = RUN_LETTERS[place]
            # The name stands only where the sentence introduces the run.
            pattern = rf"(?<!\w){letter}(?: {re.escape(shorten_name(name))})?(?!\w)"
            for match in re.finditer(pattern, title.plain):
                title = title.stylize(inks.by_number(place), *match.span())
        return title

    def _next_keys(self) -> list[NextKey]:
        """Return what helps next."""
        best = self._best_place()
        letter = RUN_LETTERS[best]
        repeat_text = f"repeat {letter}"
        if self._compared[best].run.job:  # the seed of a script is its own
            repeat_text += " with another seed"
        if not self._opens_runs:
            repeat_text = f"copy the command to {repeat_text}"
        texts = {
            "repeat-best": repeat_text,
            "open-best": f"open {letter}",
            "copy-run-command": f"copy the command of {letter}",
            "pin": "pin A as the baseline",
        }
        if not (self._headline and self._headline.needs_repeat):
            del texts["repeat-best"]
        calls = {
            "repeat-best": "repeat",
            "open-best": "open",
            "copy-run-command": "copy_command",
            "pin": "pin",
        }
        next_keys = []
        for name, text in texts.items():
            if self.check_action(calls[name], ()):
                next_keys.append(NextKey(key_of(self.app, name), text))
        return next_keys

    def _best_place(self) -> int:
        """Return the place of the best run; before all are read, of the last one."""
        return self._headline.best if self._headline else len(self._folders) - 1

    def _title(self) -> str:
        """Name what is compared."""
        lettered_names = map(" ".join, zip(RUN_LETTERS, self._names, strict=False))
        return f"compare: {', '.join(lettered_names)}"

    def _chart_title(self, measure: CompareMeasure, is_log: bool) -> str:
        along = "training time" if self._by_time else "step"
        notes = "  log" if is_log else ""
        if measure.is_noisy:
            notes += f"  ema {USUAL_SMOOTHING:g}".replace("0.", ".")
        return f"{measure.title} by {along}{notes}"

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for what this dashboard cannot do, such as opening a run."""
        if action == "open":
            return self._opens_runs
        return True

    @property
    def names_now(self) -> Mapping[str, str]:
        """Return what keys do now, as the strip says it, where that is not their usual name."""
        return {} if self._opens_runs else {"repeat": "Copy repeat"}

    @property
    def _opens_runs(self) -> bool:
        return bool(getattr(self.app, "opens_runs", False))

    def action_back(self) -> None:
        """Close this page."""
        self.dismiss()

    def action_open(self) -> None:
        """Open the best run."""
        self.post_message(OpenRun(self._folders[self._best_place()].name))

    def action_copy_command(self) -> None:
        """Copy the command of the best run."""
        plan = self._load_best_plan()
        if plan:
            self.post_message(CopyCommand(plan))

    def action_repeat(self) -> None:
        """Show the launch form for the best run with another seed; where there is no form, copy the
        command."""
        plan = self._load_best_plan()
        if plan is None:
            return
        seed = self._unused_seed()
        if self._opens_runs:
            self.post_message(RepeatRun(plan.run, seed))
        else:
            self.post_message(CopyCommand(replace(plan, work=with_seed(plan.work, seed))))

    def _load_best_plan(self) -> Plan | None:
        """Return the plan of the best run; say why it cannot be read, if so."""
        folder = self._folders[self._best_place()]
        try:
            return load_plan(folder)
        except (RunFolderError, OtherFormat, OSError) as error:
            self.notify(str(error), severity="error", markup=False)
            return None

    def _unused_seed(self) -> int:
        """Return a seed that no compared run has had: with one of theirs, a run would only be made
        again."""
        jobs = [compared.run.job for compared in self._compared]
        return 1 + max((job.seed for job in jobs if job), default=0)

    def action_along(self) -> None:
        """Switch between steps and time."""
        self._by_time = not self._by_time
        self._draw()

    def action_measure(self) -> None:
        """Show the next metric."""
        next_index = MEASURES.index(self._measure) + 1
        self._measure = MEASURES[next_index % len(MEASURES)]
        self._draw()

    def action_rows(self) -> None:
        """Show all rows of the table, or only the main ones."""
        self._shows_all = not self._shows_all
        self._draw()
        self.query_one("#facts").scroll_home(animate=False)

    def action_pin(self) -> None:
        """Pin run A as the baseline of all charts, or take its pin away."""
        self.post_message(PinRun(self._folders[0]))

    def action_log_y(self) -> None:
        """Switch between a logarithmic and a linear y axis."""
        self._log_y = not self.query_one(Chart).options.log_y
        self._draw()
