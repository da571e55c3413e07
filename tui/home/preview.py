"""What home shows of the run or study under the cursor beside the list, if there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from remote.format import count, duration, loss, moment, percent
from remote.record.alike import SimilarRun
from remote.record.entry import FINISHED, RUNNING, Entry
from remote.record.loss_course import LossCourse, LossPoint
from remote.run.state.resume_point import ResumePoint
from remote.sanitise import plain
from tui.home.history import History, RunDetails
from tui.home.list_text import GetKey, describe_item
from tui.home.run_list import RunItem
from tui.home.run_table import describe_state
from tui.kit.background import RepeatedTask
from tui.kit.inks import LINE, MUTED, TEST
from tui.kit.run_differences import format_value
from tui.kit.text_table import align_lines
from tui.kit.widgets.table import CELL_STYLES

if TYPE_CHECKING:  # numpy takes a while to load, and a low screen has no room for a chart
    from tui.charts.raster import Curve

LOG_SPAN = 30.0
"""The largest loss over the least from which on the axis is logarithmic: 1.5 decades."""

MOST_DIFFERENCES = 8
"""Settings in which the run differs from another one that are listed."""


class RunPreview(Container):
    """What a run came to, its way out, its loss, and in what it differs from the pinned run or else
    from the one that is most like it; or the answer of a study."""

    DEFAULT_CSS = """
    RunPreview {
        layout: horizontal; height: 40%; min-height: 12; max-height: 22; padding: 0 1;
        border-top: solid $ink-rule; border-title-color: $text-muted;
    }
    RunPreview VerticalScroll { width: 1fr; scrollbar-size-vertical: 1; }
    RunPreview #facts { height: auto; }
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
        self._pinned = ""
        """The run with which it is compared, if one is pinned."""
        self._details = RunDetails()
        """What was read of it, or before of the same run."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(id="facts", markup=False)
        yield Container(id="curve")

    def show(self, item: RunItem | None, runs: Sequence[Entry]) -> None:
        """Show a row of the list, of all recorded `runs`."""
        pinned = next((run.name for run in runs if run.pinned), "")
        if item == self._item and pinned == self._pinned:
            return
        self._pinned = pinned
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
        lines = list(_describe(item, details, self._get_key)) if item else []
        self.query_one("#facts", Static).update(Content("\n").join(lines))
        has_curve = len(details.course.training) > 1
        self.set_class(has_curve, "-curve")
        if has_curve:
            self._draw_curves(details.course)

    def _draw_curves(self, course: LossCourse) -> None:
        from tui.charts.chart import Chart
        from tui.charts.plot_frame import PlotOptions

        holder = self.query_one("#curve")
        if not holder.children:
            chart = Chart(PlotOptions("step", named=True))
            chart.can_focus = False
            holder.mount(chart)
        chart = holder.query_one(Chart)
        curves = [_make_curve("train", LINE, course.training)]
        if len(course.tests) > 1:
            curves.append(_make_curve("test", TEST, course.tests))
        values = [value for _, value in (*course.training, *course.tests)]
        log_y = min(values) > 0 and max(values) > LOG_SPAN * min(values)
        is_named = len(curves) > 1
        chart.draw(curves, options=PlotOptions("step", log_y=log_y, named=is_named))


def _make_curve(name: str, ink: int, points: Sequence[LossPoint]) -> Curve:
    import numpy as np

    from tui.charts.raster import Curve

    steps, losses = np.array(points, float).T
    return Curve(name, ink, steps, losses, losses, losses, band=False)


# Text ---------------------------------------------------------------------------------------------


def _describe(item: RunItem, details: RunDetails, get_key: GetKey) -> Iterator[Content]:
    """Yield the lines on a row of the list."""
    state = describe_state(item)
    style = CELL_STYLES.get(state.style, "")
    if item.study:
        study = item.study.study
        yield Content.styled(state.text, style)
        yield Content(plain(study.question or study.title))
        for line in details.answer:
            yield Content(plain(line))
        return
    if item.entry is None:
        yield Content.styled(state.text, style)
        yield Content(describe_item(item, 0, get_key))
        return
    run = item.entry
    reason = f"  {plain(run.problem or run.cause)}" if run.problem or run.cause else ""
    yield Content.assemble((state.text, style), reason)
    for flaw in run.flaws:
        yield Content.styled(plain(flaw.text), "$text-warning")
    if details.checkpoint_step and run.verdict not in (FINISHED, RUNNING):
        resume_point = ResumePoint(details.checkpoint_step, run.step)
        yield Content.assemble((get_key("resume"), "bold"), f" {resume_point.text}")
    yield Content(plain(_describe_outcome(run)))
    for line in _describe_origin(run):
        yield Content.styled(plain(line), MUTED)
    if run.note:
        yield Content(plain(f"note: {run.note}"))
    if not run.problem:
        key = get_key("copy-run-command")
        yield Content.assemble((key, "bold"), (" copies its command line", MUTED))
    if details.reference:
        yield Content("")
        yield from _describe_differences(details.reference)


def _describe_outcome(run: Entry) -> str:
    """Return the last figures of a run: "loss 0.0083, test 91.4% (loss 0.3012), 1:43"."""
    parts = []
    if run.loss is not None:
        parts.append(f"loss {loss(run.loss)}")
    if run.accuracy is not None:
        parts.append(f"test acc {percent(run.accuracy, 1)}")
    if run.test_loss is not None:
        parts.append(f"test loss {loss(run.test_loss)}")
    if run.step:
        parts.append(f"step {run.step:,}" + (f" of {run.steps:,}" if run.steps else ""))
    return ", ".join(parts) or "no steps"


def _describe_origin(run: Entry) -> Iterator[str]:
    """Yield where and when a run was made."""
    hosts = count(len(run.hosts), "host")
    took = f", took {duration(run.elapsed)}" if run.elapsed else ""
    yield f"{count(run.ranks, 'rank')} on {hosts}, started {moment(run.started or 0)}{took}"
    if run.study:
        yield f"study {run.study}: {run.trial}"


def _describe_differences(similar: SimilarRun) -> Iterator[Content]:
    other = similar.run.label or similar.run.name
    if not similar.differences:
        yield Content.styled(plain(f"the same settings as {other}"), MUTED)
        return
    yield Content.styled(plain(f"differs from {other} in"), MUTED)
    rows = [
        (f"  {setting}", format_value(value), f"there {format_value(other_value)}")
        for setting, value, other_value in similar.differences[:MOST_DIFFERENCES]
    ]
    for line in align_lines(rows):
        yield Content(plain(line))
    num_more = len(similar.differences) - MOST_DIFFERENCES
    if num_more > 0:
        yield Content.styled(f"  and {count(num_more, 'more setting')}", MUTED)
