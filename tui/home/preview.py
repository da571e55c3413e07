"""What home shows of the run or study under the cursor beside the list, if there is room."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual.app import ComposeResult
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from remote.format import count, duration, loss, moment, percent, step_time
from remote.record.alike import SimilarRun
from remote.record.entry import Entry
from remote.record.figures import add_newer_steps
from remote.record.loss_course import LossCourse, LossPoint
from remote.run.output.last_words import find_error_line, find_raising_line, last_words
from remote.sanitise import plain
from tui.home.history import History, RunDetails
from tui.home.list_text import GetKey
from tui.home.run_list import RunItem
from tui.home.verdict_text import judge_item, list_next_keys
from tui.kit.background import RepeatedTask
from tui.kit.inks import LINE, MUTED, TEST
from tui.kit.run_differences import format_value
from tui.kit.widgets.verdict_strip import Severity, VerdictStrip

if TYPE_CHECKING:  # numpy takes a while to load, and a low screen has no room for a chart
    from tui.charts.chart import Chart
    from tui.charts.raster import Curve

LOG_SPAN = 30.0
"""The largest loss over the least from which on the axis is logarithmic: 1.5 decades."""

OUTPUT_LINES = 6
"""Lines that are shown of what a failed rank printed last."""
ERROR_ROWS = 4
"""Rows that a line of an error takes at most: where it was raised must stay in sight."""
PADDING = 2
"""Columns beside what is shown."""
SCROLLBAR = 1
"""Columns of the scrollbar of the facts."""
MOST_DIFFERENCES = 4
"""Settings in which the run differs from another one that are listed."""


class RunPreview(Container):
    """What a run came to, its way out, its loss, and in what it differs from the pinned run or else
    from the one that is most like it; or the answer of a study."""

    DEFAULT_CSS = """
    RunPreview {
        layout: vertical; height: 1fr; padding: 0 1;
        border-top: solid $ink-rule; border-title-color: $text-muted;
    }
    RunPreview Horizontal { height: 1fr; }
    RunPreview VerticalScroll {
        width: 1fr; scrollbar-size-vertical: 1;
        scrollbar-color: $ink-rule; scrollbar-background: $background;
    }
    RunPreview #facts { height: auto; }
    RunPreview #output {
        height: auto; text-wrap: nowrap; text-overflow: ellipsis; padding: 0 0 1 0;
    }
    RunPreview #curve { width: 1fr; display: none; padding: 0 0 0 2; }
    RunPreview.-curve #curve { display: block; }
    """

    def __init__(self, history: History, get_key: GetKey) -> None:
        super().__init__()
        self._history = history
        self._get_key = get_key
        self._reading = RepeatedTask(self, self._take_details, self._fail)
        self._item: RunItem | None = None
        """What is shown."""
        self._has_verdict = True
        self._pinned = ""
        """The run with which it is compared, if one is pinned."""
        self._width = 0
        """The columns of the terminal for which it is drawn."""
        self._details = RunDetails()
        """What was read of it, or before of the same run."""
        self._chart: Chart | None = None

    def compose(self) -> ComposeResult:
        yield VerdictStrip()
        with Horizontal():
            with VerticalScroll(can_focus=False):
                yield Static(id="output", markup=False)
                yield Static(id="facts", markup=False)
            yield Container(id="curve")

    def show(self, item: RunItem | None, runs: Sequence[Entry], *, has_verdict: bool) -> None:
        """Show a row of the list, of all recorded `runs`; without its verdict where this stands
        elsewhere."""
        pinned = next((run.name for run in runs if run.pinned), "")
        width = self.app.size.width
        shown = item, pinned, has_verdict, width
        if shown == (self._item, self._pinned, self._has_verdict, self._width):
            return
        self._width = width
        self._pinned = pinned
        self._has_verdict = has_verdict
        if self._item is None or item is None or item.name != self._item.name:
            self._details = RunDetails()
        self._item = item
        self._draw()
        if item:
            self._reading.begin(lambda: (item, self._read(item, runs)))

    def _read(self, item: RunItem, runs: Sequence[Entry]) -> RunDetails:
        if item.study:
            return self._history.read_answer(item.study)
        if item.entry:
            return self._history.read_details(item.entry, runs)
        return RunDetails()

    def _take_details(self, read: tuple[RunItem, RunDetails]) -> None:
        item, details = read
        if item == self._item:
            self._details = details
            self._draw()

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error

    def _draw(self) -> None:
        item = self._item
        details = self._details
        self.border_title = f" {plain(item.title)} " if item else ""
        # Beside a chart, what a failed rank printed would be cut, and that says why it failed.
        has_curve = len(details.course.training) > 1 and not details.output
        room = self._width - PADDING
        if has_curve:
            room //= 2
        lines = list(_describe(item, details, room - SCROLLBAR)) if item else []
        self.query_one("#facts", Static).update(Content("\n").join(lines))
        output = self.query_one("#output", Static)
        output_lines = _describe_output(details.output, room - SCROLLBAR)
        output.update(Content("\n").join(output_lines))
        output.display = bool(details.output)
        self._show_verdict(item)
        self.set_class(has_curve, "-curve")
        if has_curve:
            self._draw_curves(details.course)

    def _show_verdict(self, item: RunItem | None) -> None:
        strip = self.query_one(VerdictStrip)
        if item is None or not self._has_verdict:
            strip.show(Severity.NEUTRAL, "")
            return
        verdict = judge_item(item, self._details.answer)
        next_keys = list(list_next_keys(item, self._details.checkpoint_step, self._get_key))
        strip.show(verdict.severity, verdict.title, verdict.reasons, next_keys)

    def _draw_curves(self, course: LossCourse) -> None:
        from tui.charts.chart import Chart
        from tui.charts.plot_frame import PlotOptions

        if self._chart is None:
            self._chart = Chart(PlotOptions("step", named=True))
            self._chart.can_focus = False
            self.query_one("#curve").mount(self._chart)
        curves = [_make_curve("train", LINE, course.training, is_smoothed=True)]
        if len(course.tests) > 1:
            curves.append(_make_curve("test", TEST, course.tests))
        values = [value for _, value in (*course.training, *course.tests)]
        log_y = min(values) > 0 and max(values) > LOG_SPAN * min(values)
        is_named = len(curves) > 1
        self._chart.draw(curves, options=PlotOptions("step", log_y=log_y, named=is_named))


def _make_curve(
    name: str, ink: int, points: Sequence[LossPoint], *, is_smoothed: bool = False
) -> Curve:
    """Return a curve of losses; `is_smoothed`: as the screen of the run smooths it."""
    import numpy as np

    from tui.charts.chart_view import USUAL_SMOOTHING
    from tui.charts.raster import Curve
    from tui.charts.smoothing import is_noisy, smooth

    steps, losses = np.array(points, float).T
    if is_smoothed and is_noisy(losses):
        losses = smooth(steps, losses, USUAL_SMOOTHING)
    return Curve(name, ink, steps, losses, losses, losses, band=False)


# Text ---------------------------------------------------------------------------------------------


def _describe(item: RunItem, details: RunDetails, room: int) -> Iterator[Content]:
    """Yield the lines on a row of the list, below its verdict, in `room` columns."""
    if item.study:
        study = item.study.study
        yield Content(plain(study.question or study.title))
        verdict = judge_item(item, details.answer)
        for line in details.answer:
            if line != verdict.title:
                yield Content(plain(line))
        return
    run = item.entry
    if run is None:
        yield Content.styled("not recorded here", MUTED)
        return
    figures = _list_figures(add_newer_steps(run, item.place[0]), item.place[1])
    if not run.step:
        yield Content.styled("it made no steps", MUTED)
    yield from _draw_pairs([*figures, *_list_origin(run)], room)
    if run.study:
        yield Content.styled(plain(f"study {run.study}: {run.trial}"), MUTED)
    if run.note:
        yield Content(plain(f"note: {run.note}"))
    if run.step_notes:
        yield Content(plain(f"notes: {run.step_notes}"))
    if details.reference:
        yield from _describe_differences(details.reference)


def _describe_output(output: Sequence[str], room: int) -> Iterator[Content]:
    """Yield the exception of a failed rank, where it was raised, and the traceback, in `room`
    columns; of a rank that raised none, what it printed last.

    The exception comes first, since there may be no room for all lines.
    """
    words = last_words(output, OUTPUT_LINES)
    error_line = find_error_line(output)
    if error_line not in words:
        yield Content.styled("last output of the rank that failed", MUTED)
        yield from (Content(plain(line)) for line in words[:-1])
        yield from _wrap_error(words[-1:], room)
        return
    error_start = len(words) - 1 - words[::-1].index(error_line)
    yield from _wrap_error(words[error_start:], room)
    if raising_line := find_raising_line(output):
        yield Content.assemble(("raised at ", MUTED), plain(raising_line))
    for line in words[:error_start]:
        yield Content.styled(plain(line), MUTED)


def _wrap_error(lines: Sequence[str], room: int) -> Iterator[Content]:
    """Yield lines broken at `room` columns."""
    for line in lines:
        rows = textwrap.wrap(
            plain(line), max(room, 10), max_lines=ERROR_ROWS, placeholder="…",
            subsequent_indent="  ", break_on_hyphens=False,
        )  # fmt: skip
        yield from map(Content, rows)


class Pair(NamedTuple):
    """A label and its value."""

    label: str
    value: str


def _list_figures(run: Entry, steps: int) -> Iterator[Pair]:
    """Yield the last figures of a run that has `steps` in all, 0 if that is not known."""
    if run.loss is not None:
        yield Pair("loss", loss(run.loss))
    if run.accuracy is not None:
        yield Pair("test acc", percent(run.accuracy, 1))
    if run.test_loss is not None:
        yield Pair("test loss", loss(run.test_loss))
    if run.step_seconds is not None:
        yield Pair("per step", step_time(run.step_seconds))
    if run.step:
        of_text = f" of {steps:,}" if steps else ""
        yield Pair("steps", f"{run.step:,}{of_text}")


def _list_origin(run: Entry) -> Iterator[Pair]:
    """Yield how long a run took, and where and when it was made."""
    if run.elapsed:
        yield Pair("took", duration(run.elapsed))
    yield Pair("started", moment(run.started or 0))
    yield Pair("ranks", str(run.ranks))
    if len(run.hosts) > 1:
        yield Pair("hosts", str(len(run.hosts)))


def _draw_pairs(pairs: Sequence[Pair], room: int) -> Iterator[Content]:
    """Yield lines of labels and values below each other: two pairs a line, if there is room."""
    for num_columns in (2, 1):
        columns = [pairs[column::num_columns] for column in range(num_columns)]
        label_widths = [max((len(pair.label) for pair in column), default=0) for column in columns]
        value_widths = [max((len(pair.value) for pair in column), default=0) for column in columns]
        gaps = num_columns + 2 * (num_columns - 1)
        if sum(label_widths) + sum(value_widths) + gaps <= room:
            break
    for begin in range(0, len(pairs), num_columns):
        line = Content()
        for column, pair in enumerate(pairs[begin : begin + num_columns]):
            line += Content("  " if column else "")
            line += Content.styled(f"{pair.label:<{label_widths[column]}} ", MUTED)
            line += Content.styled(f"{pair.value:<{value_widths[column]}}", "bold")
        yield line.rstrip()


def _describe_differences(similar: SimilarRun) -> Iterator[Content]:
    """Yield in what the run differs from another one, a line each below its name: "epochs 24, was
    20"."""
    other = plain(similar.run.label or similar.run.name)
    if not similar.differences:
        yield Content.styled(f"the same settings as {other}", MUTED)
        return
    yield Content.styled(f"unlike {other}:", MUTED)
    shown_differences = similar.differences[:MOST_DIFFERENCES]
    label_width = max(len(plain(setting)) for setting, _, _ in shown_differences)
    for setting, value, other_value in shown_differences:
        yield Content.assemble(
            (f"{plain(setting):<{label_width}} ", MUTED),
            (plain(format_value(value)), "bold"),
            (f", was {plain(format_value(other_value))}", MUTED),
        )
    num_more = len(similar.differences) - MOST_DIFFERENCES
    if num_more > 0:
        yield Content.styled(f"and {count(num_more, 'more setting')}", MUTED)
