"""Showing a run on a terminal without the dashboard: lines scroll above a fixed bar and table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text as Line

from remote.format import (
    UNKNOWN,
    count,
    duration,
    loss,
    or_unknown,
    percent,
    size,
    step_time,
)
from remote.run.findings.rates import rank_means, step_means
from remote.run.findings.start_waits import REACHING, age
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import START_PHASES, RunPhase
from remote.run.state.rank_state import RankState
from training.wire.events import Record
from tui.kit.live_table import LiveTable, bare_table, live_table
from tui.kit.rank_looks import RANK_LOOKS
from tui.kit.session_clock import SessionClock
from tui.run import outcome
from tui.run.components.eta_text import describe_eta
from tui.run.narration import Narration, RankLines

COLUMNS = (
    "rank",
    "host",
    "phase",
    "epoch",
    "step",
    "loss",
    "acc",
    "per step",
    "sync",
    "CPU",
    "memory",
)
MAX_HOST_WIDTH = 12
MAX_LINES = 200
"""The most lines of one batch that are shown: nobody reads more, and a terminal is slow."""


@contextmanager
def live_printer(
    console: Console | None = None,
    *,
    notes_told: int = 0,
    quiet: bool = False,
    verbose: bool = False,
) -> Iterator[LivePrinter]:
    """Make a printer that keeps a bar and a table at the bottom of the terminal.

    For `notes_told`, `quiet` and `verbose` see `tui.run.printer`.
    """
    with live_table(console) as table:
        yield LivePrinter(table, notes_told, quiet=quiet, verbose=verbose)


class LivePrinter:
    """Prints lines above the progress of the run and a table of ranks."""

    def __init__(self, table: LiveTable, notes_told: int, *, quiet: bool, verbose: bool) -> None:
        self.gone = False
        self._table = table
        self._quiet = quiet
        self._narration = Narration(notes_told, verbose=verbose)
        self._ranks = RankLines()
        self._clock = SessionClock()

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print the output of ranks, describe the other records, and redraw the table when due."""
        if not self._quiet:
            self._print(self._ranks.chunks(records, state))
        self._table.tell(self._narration.lines(records, state))
        now = self._clock.now(state)
        self._table.draw(lambda size: picture(state, size.height, now))

    def end(self, state: RunState) -> None:
        """Replace the table by the cause of a failure, the results and the verdict."""
        live_table = self._table
        live_table.stop()
        self._print(self._ranks.rest(state))
        live_table.tell(self._narration.rest(state))
        cause_lines = outcome.describe_cause(state)
        for line_number, line in enumerate(cause_lines):
            live_table.print(line, "" if line_number else "bold red")
        if outcome.has_results(state):
            live_table.print(results_table(state))
            live_table.print("\n".join(outcome.result_captions(state)), "dim")
        for line in outcome.closing_advice(state):
            live_table.print(line, "dim")
        live_table.print(outcome.verdict_line(state), "bold red" if cause_lines else "bold")

    def _print(self, chunks: Iterable[str]) -> None:
        shown_lines = "".join(chunks).splitlines()
        # Of a flood, the newest lines are shown: they say where the ranks are.
        num_hidden = max(0, len(shown_lines) - MAX_LINES)
        if num_hidden:
            hidden_note = f"({count(num_hidden, 'line')} not shown; the run directory has them)"
            shown_lines = [hidden_note, *shown_lines[num_hidden:]]
        if shown_lines:
            self._table.print("\n".join(shown_lines))


def picture(state: RunState, height: int, now: float) -> RenderableType:
    """Draw the progress of the run at the time `now`, and as many ranks as fit."""
    return Group(_progress_bar(state, now), _rank_table(state, max(1, height - 5), now))


def _progress_bar(state: RunState, now: float) -> RenderableType:
    if state.phase is RunPhase.STARTING:
        hosts_text = ", ".join(_host_text(host, state, now) for host in state.hosts)
        time_spent = duration(age(state.started, state, now))
        return Line(
            f"starting {time_spent}  {hosts_text}", style="bold", no_wrap=True, overflow="ellipsis"
        )
    step = state.step
    total_steps = state.progress.steps
    bar_row = Table.grid(padding=(0, 2))
    bar_row.add_row(
        Line(state.doing, style="bold"),
        # Without a total, rich draws a bar that pulses.
        ProgressBar(total=total_steps or None, completed=step, width=24),
        f"step {step}/{total_steps}" if total_steps else f"step {step}",
        f"{step_time(step_means(state).seconds)}/step",
        duration(state.elapsed),
        f"ETA {describe_eta(state, now).point}",
    )
    return bar_row


def _host_text(host: HostState, state: RunState, now: float) -> str:
    age_text = f" {duration(age(host.since, state, now))}" if host.phase in REACHING else ""
    return f"{host.name} {host.phase.value}{age_text}"


def _rank_table(state: RunState, max_ranks: int, now: float) -> RenderableType:
    has_gpu = any(rank.gpu for rank in state.ranks)
    table = bare_table((*COLUMNS, "GPU") if has_gpu else COLUMNS, left=("host", "phase"))
    table.columns[1].max_width = MAX_HOST_WIDTH
    for rank in state.ranks[:max_ranks]:
        gpu_cells = [percent(rank.gpu.use / 100)] if rank.gpu else []
        table.add_row(*_rank_row(rank, state, now), *gpu_cells)
    if len(state.ranks) > max_ranks:
        table.add_row("", "", f"and {len(state.ranks) - max_ranks} more", style="dim")
    return table


def _rank_row(rank: RankState, state: RunState, now: float) -> list[RenderableType]:
    age_text = f" {duration(age(rank.since, state, now))}" if rank.phase in START_PHASES[1:] else ""
    means = rank_means(rank)
    return [
        str(rank.rank),
        state.host_name(rank.host),
        Line(
            rank.doing + age_text,
            style="bold red" if rank.doing == "stalled" else RANK_LOOKS[rank.phase].line_style,
        ),
        or_unknown(rank.epoch),
        or_unknown(rank.step),
        loss(rank.recent_loss),
        percent(rank.accuracy, 1),
        step_time(means.seconds),
        percent(means.share(means.sync)),
        percent(rank.cpu / 100),
        size(rank.memory) if rank.memory else UNKNOWN,
    ]


def results_table(state: RunState) -> Table:
    """Make the table of results."""
    column_names, rows = outcome.result_table(state)
    table = bare_table(column_names, left=("host",), wrapping=("own accuracy",))
    for row in rows:
        table.add_row(*row)
    return table
