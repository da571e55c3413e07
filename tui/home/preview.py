"""What home shows of the run or study under the cursor beside the list, if there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from remote.format import count, duration, loss, moment, percent, step_time
from remote.record.alike import SimilarRun
from remote.record.entry import Entry
from remote.record.figures import add_newer_steps
from remote.record.loss_course import LossCourse, LossPoint
from remote.run.output.last_words import find_raising_line, last_words
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
    RunPreview VerticalScroll { width: 1fr; scrollbar-size-vertical: 1; }
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
        if (item, pinned, has_verdict) == (self._item, self._pinned, self._has_verdict):
            return
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
        # The user may have left while the run was read: what is closing has no widgets any more.
        if not self.children:
            return
        item = self._item
        details = self._details
        self.border_title = f" {plain(item.title)} " if item else ""
        lines = list(_describe(item, details)) if item else []
        self.query_one("#facts", Static).update(Content("\n").join(lines))
        output = self.query_one("#output", Static)
        output.update(Content("\n").join(_describe_output(details.output)))
        output.display = bool(details.output)
        self._show_verdict(item)
        has_curve = len(details.course.training) > 1
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
        curves = [_make_curve("train", LINE, course.training)]
        if len(course.tests) > 1:
            curves.append(_make_curve("test", TEST, course.tests))
        values = [value for _, value in (*course.training, *course.tests)]
        log_y = min(values) > 0 and max(values) > LOG_SPAN * min(values)
        is_named = len(curves) > 1
        self._chart.draw(curves, options=PlotOptions("step", log_y=log_y, named=is_named))


def _make_curve(name: str, ink: int, points: Sequence[LossPoint]) -> Curve:
    import numpy as np

    from tui.charts.raster import Curve

    steps, losses = np.array(points, float).T
    return Curve(name, ink, steps, losses, losses, losses, band=False)


# Text ---------------------------------------------------------------------------------------------


def _describe(item: RunItem, details: RunDetails) -> Iterator[Content]:
    """Yield the lines on a row of the list, below its verdict."""
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
    yield _describe_figures(add_newer_steps(run, item.place[0]), item.place[1])
    for line in _describe_origin(run):
        yield Content.styled(plain(line), MUTED)
    if run.note:
        yield Content(plain(f"note: {run.note}"))
    if run.step_notes:
        yield Content(plain(f"notes: {run.step_notes}"))
    if details.reference:
        yield from _describe_differences(details.reference)


def _describe_output(output: Sequence[str]) -> Iterator[Content]:
    """Yield where a failed rank raised its exception, if it did, and what it printed last."""
    raising_line = find_raising_line(output)
    if raising_line:
        yield Content.assemble(("raised at ", MUTED), plain(raising_line))
    else:
        yield Content.styled("last output of the rank that failed", MUTED)
    for line in last_words(output, OUTPUT_LINES):
        yield Content.styled(plain(line), MUTED if raising_line else "")


def _describe_figures(run: Entry, steps: int) -> Content:
    """Return the last figures of a run: "loss 0.0083  test acc 91.4%  test loss 0.3012  steps
    150 of 552"."""
    figures = list[tuple[str, str]]()
    if run.loss is not None:
        figures.append(("loss", loss(run.loss)))
    if run.accuracy is not None:
        figures.append(("test acc", percent(run.accuracy, 1)))
    if run.test_loss is not None:
        figures.append(("test loss", loss(run.test_loss)))
    if run.step_seconds is not None:
        figures.append(("step", step_time(run.step_seconds)))
    if run.step:
        of_text = f" of {steps:,}" if steps else ""
        figures.append(("steps", f"{run.step:,}{of_text}"))
    if not figures:
        return Content.styled("it made no steps", MUTED)
    parts = list[tuple[str, str]]()
    for label, value in figures:
        parts += [(f"{label} ", MUTED), (value, "bold"), ("  ", "")]
    return Content.assemble(*parts[:-1])


def _describe_origin(run: Entry) -> Iterator[str]:
    """Yield where and when a run was made."""
    hosts = count(len(run.hosts), "host")
    took = f", took {duration(run.elapsed)}" if run.elapsed else ""
    yield f"{count(run.ranks, 'rank')} on {hosts}, started {moment(run.started or 0)}{took}"
    if run.study:
        yield f"study {run.study}: {run.trial}"


def _describe_differences(similar: SimilarRun) -> Iterator[Content]:
    """Yield in what the run differs from another one, a line each: "epochs 24, was 20 in
    baseline"."""
    other = plain(similar.run.label or similar.run.name)
    if not similar.differences:
        yield Content.styled(f"the same settings as {other}", MUTED)
    for setting, value, other_value in similar.differences[:MOST_DIFFERENCES]:
        yield Content.assemble(
            (f"{plain(setting)} ", MUTED),
            (plain(format_value(value)), "bold"),
            (f", was {plain(format_value(other_value))} in {other}", MUTED),
        )
    num_more = len(similar.differences) - MOST_DIFFERENCES
    if num_more > 0:
        yield Content.styled(f"and {count(num_more, 'more setting')}", MUTED)
