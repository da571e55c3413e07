"""Everything that is shown of a run, without a screen: its summary, what is printed, the rows of
tables and the pictures of charts."""

from __future__ import annotations

import io
import json
import math
import pickle
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from msgspec import structs
from rich.console import Console

from remote.metrics.gather import RunCollector
from remote.metrics.run import RunFigures, make_figures
from remote.plan.plan import Plan
from remote.record import summary
from remote.record.classification import format_last_report
from remote.run.diagnosis import straggler
from remote.run.diagnosis.host_load import loads
from remote.run.diagnosis.stacks import locate_rank
from remote.run.findings import rates, stall
from remote.run.findings import script_visibility as seen
from remote.run.findings.alerts import describe_slow_spells
from remote.run.findings.rates import describe_staleness
from remote.run.findings.start_waits import waiting
from remote.run.run_state import RunState
from remote.run.series.definitions import SERIES
from tests.hostile.fuzz.budget import Budget
from training.wire.events import Record
from tui.charts import export, plot_frame
from tui.charts import heading as values
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.kinds import ChartKind, available
from tui.charts.make_drawing import make_drawing, steps_to_refine
from tui.export import csv
from tui.export.tables import STEP_TABLES, count_rows, make_small_tables, summarise
from tui.kit.inks import DARK
from tui.kit.widgets.verdict_strip import Severity, draw_verdict
from tui.log.margin import LogMargin
from tui.log.row_text import format_entry, format_rows
from tui.log.rows import LogFilter, LogRows
from tui.run import hosts_panel as hosts_panel
from tui.run import live_printer as live
from tui.run import outcome as text_outcome
from tui.run import ranks_panel as ranks_panel
from tui.run.components import header_lines as header
from tui.run.components import heat_strip as heat
from tui.run.components import stack_text as stack
from tui.run.components.advice_text import make_command
from tui.run.components.fold import FoldedColumns, is_empty
from tui.run.components.groups import is_grouped, table_lines
from tui.run.components.header import script_notes
from tui.run.components.header_figures import header_figures
from tui.run.components.rank_cells import RowContext
from tui.run.components.rank_columns import RANK_COLUMNS
from tui.run.components.rank_facts import rank_facts
from tui.run.components.rank_order import RANK_ORDERS
from tui.run.end_verdict import judge_ended_run
from tui.run.json_printer import JsonPrinter
from tui.run.learning_verdict import judge_learning
from tui.run.live_verdict import judge_live_run, list_alerts, list_open_alerts
from tui.run.plain_printer import PlainPrinter
from tui.run.run_verdict import VerdictKeys

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What no terminal may get from a host."""
FIGURES_OF_RUN = (
    *("phase", "attempt", "cause", "stop_reason", "refused", "doing", "has_begun", "is_settled"),
    *("step", "training_seconds", "stall", "elapsed"),
    *("means", "waits_for_slowest", "is_under_way"),
)
CHARTS = 3
"""Charts that are drawn at a look: there are twenty."""
COPIES = 0.2
"""How often a copy of the state is made, which takes as long as all else."""


class Show:
    """Shows a run as it goes on, in all ways."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._random = random
        self._out, self._err, self._json = io.StringIO(), io.StringIO(), io.StringIO()
        self._plain = PlainPrinter(self._out, self._err, verbose=True)
        self._object = JsonPrinter(self._json, io.StringIO(), folder=Path("/runs/a-run"))
        self._console = Console(file=io.StringIO(), width=80, height=30, highlight=False)
        self._folded = FoldedColumns()
        self._batch: list[Record] = []

    def take(self, records: Sequence[Record], run: RunState) -> None:
        """Show these records, which the run has taken in."""
        self._batch += records
        if len(self._batch) < self._random.choice((1, 10, 30)):
            return
        batch, self._batch = self._batch, []
        self._plain.batch(batch, run)
        self._object.batch(batch, run)
        self._check_printed()

    def look(self, run: RunState, now: float, budget: Budget) -> None:
        """Show the run as it is at this time. Each way has a budget of its own."""
        ways = [_facts, self._panels, self._charts, _log, self._live]
        if self._random.random() < COPIES:
            ways.append(_copied)
        for way in ways:
            budget.renew()
            way(run, now)

    def end(self, run: RunState) -> None:
        """Print how the run ends, or how it is left."""
        self._plain.end(run)
        self._object.end(run)
        self._check_printed()

    def figures(self, run: RunState, gathered: RunCollector) -> None:
        """What the run amounts to."""
        _check_figures(make_figures(Path("/runs/a-run"), run, gathered))

    def _check_printed(self) -> None:
        """Nothing that a terminal acts on is printed, and all JSON is strict."""
        for stream in (self._out, self._err):
            text = _taken(stream)
            assert not CONTROL.search(text), ascii(text[:2_000])
        for line in _taken(self._json).split("\n"):
            assert not CONTROL.search(line), ascii(line[:2_000])
            if line:
                json.loads(line, parse_constant=_refuse)

    def _live(self, run: RunState, now: float) -> None:
        """The table that stands beneath the lines."""
        self._console.print(live.picture(run, 20, now))
        if text_outcome.has_results(run):
            self._console.print(live.results_table(run))
        text_outcome.result_captions(run)
        text_outcome.describe_cause(run)
        text_outcome.verdict_line(run)
        text_outcome.closing_advice(run)
        assert isinstance(self._console.file, io.StringIO)
        text = _taken(self._console.file)
        assert not CONTROL.search(text), ascii(text[:2_000])

    def _panels(self, run: RunState, now: float) -> None:
        """The lines and rows of the dashboard."""
        width = self._random.choice((20, 80, 120))
        length = header.RunLength(run.progress.epochs, run.progress.steps)
        severity = Severity.NEUTRAL
        lines = [header.progress_line(run, length, width, now, severity)]
        lines += [
            header.title_line(run, header.NO_REPLAY, "", width, severity, has_finding=has_finding)
            for has_finding in (False, True)
        ]
        for is_roomy in (True, False):
            lines += header.figure_lines(
                header_figures(run), width, is_roomy=is_roomy, stale=describe_staleness(run)
            )
        texts = [line.plain for line in lines]
        texts += script_notes(run)
        for one in waiting(run, now):
            texts += header.fold_text(one.text(), width)
        texts += header.fold_text(seen.advice(run, now), width)
        texts += list_alerts(run, "s").split("\n")
        keys = VerdictKeys("R", "n", "C", "E", "y", "s", "a", "!", "q")
        verdicts = [judge_live_run(run, list_open_alerts(run, ()), keys, now)]
        verdicts += [judge_learning(run, keys)]
        verdicts += [judge_ended_run(run, keys, is_brief=is_brief) for is_brief in (False, True)]
        for verdict in verdicts:
            texts += draw_verdict(*verdict[:4], width).plain.split("\n")
            if verdict.advice:
                texts.append(make_command(run, verdict.advice))
        for rank in run.ranks:
            texts += [str(text) for _, text in rank_facts(rank, run, now, is_roomy=True)]
            texts += [stack.whereabouts_line(run, [rank]).plain]
            texts += [one.plain for one in stack.stack_lines(run, [rank], now, width)]
        stack.stack_steps(run.ranks)
        texts += [
            stack.whereabouts_line(run, group).plain for group in stack.group_by_stack(run.ranks)
        ]
        texts += self._tables(run, now)
        for text in texts:
            assert not CONTROL.search(text), ascii(text[:2_000])

    def _tables(self, run: RunState, now: float) -> Iterator[str]:
        """The rows of the tables of ranks and hosts, and the heat strip."""
        order = self._random.choice(RANK_ORDERS)
        scale = ranks_panel._trend_scale(run.ranks)
        found = table_lines(run, order, {0}, self._random.choice((1, 3, 50)))
        sign = "  " if is_grouped(run.plan) else ""
        views = [RowContext(line.ranks, run, now, DARK, scale, sign) for line in found]
        views.append(RowContext(run.ranks, run, now, DARK, scale))
        for figure in RANK_COLUMNS:
            cells = [figure.cell(view) for view in views]
            is_empty(cells)
            ranks_panel._fitted_column(figure, cells, 80)
            yield from (cell.text for cell in cells)
        self._folded.update(RANK_COLUMNS, run.ranks, run)
        shared = heat.heat_grid(len(run.ranks), 80, 5).ranks
        cells = heat.heat_cells(run.ranks, run, scale.medians, scale.typical, shared)
        yield from (cell.text for cell in cells)
        for host, load in zip(run.hosts, loads(run.hosts, run.ranks), strict=True):
            age = hosts_panel._phase_age(host, run, now)
            row = hosts_panel.HostRow(host, load, age, is_traffic_counted=True)
            yield from (column.cell_of(row).text for column in hosts_panel.HOST_COLUMNS)

    def _charts(self, run: RunState, _: float) -> None:
        """Some of the charts, along all axes, near and far."""
        kinds = available(run)
        if not kinds:
            return
        for kind in self._random.sample(kinds, min(CHARTS, len(kinds))):
            self._chart(run, kind)

    def _chart(self, run: RunState, kind: ChartKind) -> None:
        view = ChartView(
            along=self._random.choice(list(XAxis)),
            mode=self._random.choice(list(CurveMode)),
            log_x=self._random.random() < 0.3,
            log_y=self._random.random() < 0.3,
            smoothing=self._random.choice((0.0, 0.5, 0.99)),
        )
        width, height = self._random.choice(((4, 2), (40, 10), (120, 30)))
        for _ in range(3):
            drawn = make_drawing(run, kind, view)
            made = plot_frame.make_frame(drawn.curves, drawn.options, width, height, drawn.marks)
            values.heading(drawn, kind, view, width)
            steps_to_refine(drawn, kind, view, run)
            export.to_csv(drawn)
            if made is None or drawn.x_range is None:
                return
            axis, ends = made.x_axis, drawn.x_range
            match self._random.randrange(4):
                case 0:
                    at = axis.value_at(self._random.random())
                    view = view.zoomed(self._random.choice((0.5, 3.0, 1e6)), at, axis, ends)
                case 1:
                    view = view.panned(self._random.choice((-0.5, 0.5)), axis, ends)
                case 2:
                    view = view.followed(axis, ends)
                case _:
                    view = structs.replace(view, cursor=values.next_cursor(drawn, view, axis, 1))


def _taken(stream: io.StringIO) -> str:
    """What was written to a stream; it is empty then."""
    text = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return text


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def _facts(run: RunState, now: float) -> None:
    """What is asked of a state, and its summary."""
    for name in FIGURES_OF_RUN:
        getattr(run, name)
    rates.step_means(run)
    for rank in run.ranks:
        rates.rank_means(rank)
        rates.busy_seconds(rank)
    run.eta(now)
    low, high = run.eta_between(now)
    assert not low > high
    assert 0 <= run.elapsed < math.inf
    if run.cause:
        run.cause.text()
    stall.find_stall(run, now)
    stall.has_all_stacks(run)
    straggler.describe_stragglers(run.stragglers.slow, run.hosts) if run.stragglers.slow else ""
    describe_slow_spells(run)
    waiting(run, now)
    seen.ways(run)
    seen.unfollowed(run)
    for rank in run.ranks:
        if rank.stack:
            locate_rank(rank.stack)
    json.dumps(summary.summarize(run), allow_nan=False)
    assert not CONTROL.search(format_last_report(run))
    for series in (*SERIES, *run.curves.metrics):
        run.curves.has_values(series)
        for row in run.curves.rows(series)[:3]:
            run.curves.of(series, row)


def _log(run: RunState, _: float) -> None:
    """The panel of the log."""
    rows = LogRows(LogFilter(), re.compile("a"))
    rows.add(run.log.since(0))
    margin = LogMargin(len(run.ranks))
    shown = format_rows(rows, rows.lines[-50:], margin)
    assert not CONTROL.search(shown), ascii(shown[:2_000])
    if rows.lines:
        format_entry(rows, len(rows.lines) - 1)


def _copied(run: RunState, _: float) -> None:
    """A replay keeps copies of the state."""
    pickle.loads(pickle.dumps(run, pickle.HIGHEST_PROTOCOL))


def _check_figures(run: RunFigures) -> None:
    """The figures that exports and comparisons are made of."""
    step_tables = [make_table(run.steps) for make_table in STEP_TABLES.values()]
    for table in (*step_tables, *make_small_tables(run).values()):
        if count_rows(table):
            csv.CsvFiles.convert(table)
    json.dumps(summarise(run), allow_nan=False)
    run.step_seconds()
    run.samples_per_second()
    run.phases()
    run.payload()
    run.wait_times()
