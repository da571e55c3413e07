"""Runs beside each other: curves by step or by time, what differs, and what they came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import count
from remote.metrics.compare import ComparedRun, compare_runs
from remote.metrics.run import read_figures
from remote.plan.plan import PlanError
from remote.record.events_file import RunFolderError
from remote.sanitise import plain
from tui.charts.chart import Chart
from tui.charts.overlay import LOSS, MEASURES, SMOOTHING, TEST_ACCURACY
from tui.charts.plot_frame import PlotOptions
from tui.compare import text as text
from tui.kit import palette
from tui.kit.actions import Place
from tui.kit.background import run_in_background
from tui.kit.bindings import bindings
from tui.kit.text_table import GAP, Row, aligned, total_width, without
from tui.kit.widgets.keys import KeyFooter

LONGEST = 30
"""Characters of a setting at most."""
MARGIN = 3
"""Cells of a line that the padding and the scrollbar take."""
STEP = PlotOptions("step", named=True)
TIME = PlotOptions("time since the first step", clock=True, named=True)


class CompareScreen(Screen[None]):
    """Two to eight recorded runs, which it reads by itself; all are compared with the first."""

    CSS = """
    CompareScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    CompareScreen VerticalScroll { height: auto; padding: 0 1; scrollbar-size-vertical: 1; }
    CompareScreen #runs { max-height: 30%; }
    CompareScreen #tables { max-height: 38%; }
    CompareScreen #charts, CompareScreen #tables {
        border-top: solid $primary 40%; border-title-color: $text-muted;
    }
    CompareScreen #charts { height: 1fr; min-height: 6; }
    CompareScreen #runs:focus { background: $boost; }
    CompareScreen #tables:focus { border-top: solid $primary; }
    """
    place = Place.COMPARE
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, folders: Iterable[Path]) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._compared: Sequence[ComparedRun] = ()
        self._measure = LOSS
        self._clock = True

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with VerticalScroll(id="runs"):
            yield Static("reading the runs", id="legend", markup=False)
        with Container(id="charts"):
            yield Chart(TIME)
        with VerticalScroll(id="tables"):
            yield Static(id="table", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#title", Static).update(f"compare {count(len(self._folders), 'run')}")
        self.query_one("#tables").focus()
        self._draw()
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        run_in_background(self, self._read, self._take, self._fail)  # long runs take seconds

    def _read(self) -> Sequence[ComparedRun]:
        return compare_runs([read_figures(folder) for folder in self._folders])

    def _take(self, found: Sequence[ComparedRun]) -> None:
        self._compared = found
        if all(len(one.run.evaluations) > 1 for one in found):
            self._measure = TEST_ACCURACY
        self._draw()

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, (PlanError, RunFolderError, OSError)):
            raise error
        self.query_one("#legend", Static).update(plain(str(error)))

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._draw)

    # Drawing

    def _draw(self) -> None:
        title = f"{self._measure.title} by {'wall time' if self._clock else 'step'}"
        smoothing = f"  ema {SMOOTHING:g}".replace("0.", ".") if self._measure.is_noisy else ""
        self.query_one("#charts").border_title = f" {title}{smoothing} "
        if not self._compared:
            return
        runs = [one.run for one in self._compared]
        curves = self._measure.curves(runs, clock=self._clock, smoothed=True)
        self.query_one(Chart).draw(curves, options=TIME if self._clock else STEP)
        room = self.size.width - MARGIN
        dark = self.app.current_theme.dark
        legend = Content("\n").join(_legend(self._compared, room, dark))
        self.query_one("#legend", Static).update(legend)
        self.query_one("#table", Static).update("\n".join(_tables(self._compared, room)))

    # Keys

    def action_back(self) -> None:
        """Close this page."""
        self.dismiss()

    def action_along(self) -> None:
        """Switch between steps and time."""
        self._clock = not self._clock
        self._draw()

    def action_measure(self) -> None:
        """Show the next figure."""
        self._measure = MEASURES[(MEASURES.index(self._measure) + 1) % len(MEASURES)]
        self._draw()

    def action_log_y(self) -> None:
        """Switch between a logarithmic and a linear y axis."""
        chart = self.query_one(Chart)
        chart.logarithmic = not chart.logarithmic


def _legend(compared: Sequence[ComparedRun], width: int, dark: bool) -> Iterator[Content]:
    """The runs with their colours; below each what is to be known of it, and the verdict; at last
    what is in doubt."""
    for place, one in enumerate(compared):
        sign = (
            f"{palette.sign('curve')} {palette.RUN_LETTERS[place]}",
            palette.colour(place, dark),
        )
        head, *rest = _folded(f"{one.run.name}: {text.became(one.run)}", width)
        yield Content.assemble(sign, GAP, head.strip())
        yield from map(Content, rest)
        for remark in text.remarks(one.run):
            yield from map(Content, _folded(remark, width))
        if place:
            said = _folded(text.verdict(one), width)
            yield from (Content.styled(line, "bold") for line in said)
    for doubt in text.doubted(compared):
        yield from (Content.styled(line, "bold") for line in _folded(doubt, width))


def _folded(line: str, width: int) -> list[str]:
    """The lines of a text below the name of its run."""
    indent = " " * len(f"● A{GAP}")
    return wrap(plain(line), max(width, 20), initial_indent=indent, subsequent_indent=indent) or [
        ""
    ]


def _tables(compared: Sequence[ComparedRun], room: int) -> list[str]:
    """The final figures and the settings that differ: beside each other where there is room."""
    figures = _figures(compared, room)
    left = aligned(figures)
    right = aligned(settings := _settings(compared, room))
    wide = total_width(figures) + 2 * len(GAP)
    if not right:
        return left
    if wide + total_width(settings) > room:
        return [*left, "", *right]
    pairs = zip_longest(left, right, fillvalue="")
    return [f"{one:{wide}}{other}".rstrip() for one, other in pairs]


def _figures(compared: Sequence[ComparedRun], room: int) -> list[Row]:
    """The final figures: a run per column, or where there is no room for that, per row."""
    table = text.figures_table(compared)
    columns = [*zip(*table, strict=True)]
    return columns if total_width(columns) <= room else without(text.DISPENSABLE, table, room)


def _settings(compared: Sequence[ComparedRun], room: int) -> list[Row]:
    """The settings that differ, in as many cells as there are; nothing where there are none."""
    head, *rows = text.settings_table(compared)
    if not rows:
        return []
    names = max(len(name) for name, *_ in rows)
    longest = min(LONGEST, max(2, (room - names) // len(compared) - len(GAP)))
    return [head, *((name, *(_short(one, longest) for one in values)) for name, *values in rows)]


def _short(value: str, longest: int) -> str:
    value = plain(value)
    return value if len(value) <= longest else f"{value[: longest - 1]}…"
