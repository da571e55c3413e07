"""Ranks that a script starts itself, in the table of ranks: below the process that started them."""

from __future__ import annotations

from remote.run.run_state import RunState
from tests.kit.scripts import script, started
from training.wire.host_events import RankSample, WorkerJoined
from tui.kit.inks import DARK
from tui.run.components.groups import table_lines
from tui.run.components.rank_cells import RowContext, TrendScale, state_cell
from tui.run.components.rank_columns import RANK_COLUMNS
from tui.run.components.rank_order import RANK_ORDERS
from tui.run.ranks_panel import RanksPanel

BY = {order.name: order for order in RANK_ORDERS}
CELL = {column.column.title: column.cell for column in RANK_COLUMNS}


def joined() -> RunState:
    history = started(script(2, 1, watch=True))
    for rank in range(4):
        history.rank(rank // 2, WorkerJoined(rank, rank // 2, 4, 500 + rank))
    history.rank(0, RankSample(0, 250.0, 1 << 30), RankSample(1, 90.0, 1 << 20, worker=True))
    return history.state()


def test_each_process_stands_above_its_ranks_in_the_chosen_order() -> None:
    run = joined()
    found = [(line.is_process, line.ranks[0].rank) for line in table_lines(run, BY["rank"], (), 9)]
    assert found == [(True, 0), (False, 0), (False, 1), (True, 1), (False, 2), (False, 3)]
    keys = [line.key for line in table_lines(run, BY["rank"], (), 9)]
    assert len({*keys}) == len(keys)
    first_four = table_lines(run, BY["CPU"], (), 9)[:3]
    assert [line.ranks[0].rank for line in first_four] == [0, 1, 0]


def test_a_process_has_its_own_figures() -> None:
    run = joined()
    scale = TrendScale("ready", (1.0, 2.0, 3.0, 4.0), 1.0)
    texts = [
        [
            CELL[title](RowContext(line.ranks, run, 0.0, DARK, scale, "", line.is_process)).text
            for title in ("rank", "CPU cores", "busy")
        ]
        for line in table_lines(run, BY["rank"], (), 9)[:3]
    ]
    assert texts == [["p0", "2.50", "-"], ["0", "-", "1.00 s"], ["1", "0.90", "2.00 s"]]
    assert state_cell(run.processes[0], run, 0.0).text.endswith("running")


def test_the_table_has_room_for_them() -> None:
    processes_and_ranks = 2 + 4
    without_workers = started(script(processes_and_ranks, 1)).state()
    assert RanksPanel.lines_needed(joined()) == RanksPanel.lines_needed(without_workers)
