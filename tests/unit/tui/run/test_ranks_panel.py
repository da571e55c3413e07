"""The table of ranks: what of it is seen where there is little room, its order, and its cursor."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from remote.events import Stalled
from remote.run.apply import apply_record
from remote.run.findings.common_step import common_step
from remote.run.run_state import RunState
from remote.run.series.step_times import RecentSteps, StepTotals
from remote.run.state.phases import RankPhase, RunPhase
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.dashboard import Stage
from tests.kit.histories import stepped
from training.job import Job
from training.wire import host_events, rank_events
from training.wire.events import SESSION
from tui.kit import draw_turn as turn
from tui.kit.draw_turn import DrawTurn, ticks
from tui.kit.inks import DARK
from tui.kit.rank_table import RankTable
from tui.kit.widgets.heat import HeatStrip
from tui.kit.widgets.table import TableCell
from tui.run.components.fold import CALM, FoldedColumns, are_alike
from tui.run.components.groups import table_lines
from tui.run.components.heat_strip import heat_cells, heat_grid
from tui.run.components.rank_cells import (
    RowContext,
    TrendScale,
    phase_bar,
    rank_accuracy,
    state_cell,
)
from tui.run.components.rank_columns import RANK_COLUMNS
from tui.run.components.rank_order import RANK_ORDERS, sort_ranks
from tui.run.hosts_panel import HostsPanel
from tui.run.rank_screen import RankScreen
from tui.run.ranks_panel import BUSY_REMARK, RanksPanel
from tui.run.screen import RunScreen

BY = {order.name: order for order in RANK_ORDERS}


def acted(hosts: int, slots: int, steps: int = 40, late: int = -1) -> ActedSession:
    """A run in its training, all of whose records are applied."""
    session = ActedSession(make_plan(cluster(hosts, slots), Job(batch_size=1024)))
    session.start()
    session.steps(1, steps, late=late)
    apply(session)
    return session


def apply(session: ActedSession) -> None:
    while not session._queue.empty():
        for record in session._queue.get() or ():
            apply_record(session.state, record)


def make_busy(session: ActedSession, busy_seconds: Sequence[float]) -> None:
    """Let the steps of each rank have this busy time."""
    for rank, seconds in zip(session.state.ranks, busy_seconds, strict=True):
        rank.pace = RecentSteps()
        rank.timing = StepTotals()
        for step in range(1, 5):
            step_of_rank = stepped(rank.rank, step, 0.5, ready=seconds)
            rank.pace.append(step_of_rank)
            rank.timing.append(step_of_rank)


def usual_order(run: RunState) -> list[int]:
    return [rank.rank for rank in sort_ranks(run.ranks, run, RANK_ORDERS[0], 9)]


def many(hosts: int, slots: int) -> Stage:
    """A dashboard over a run of so many ranks that each has a sample of a batch only of 1,024."""
    stage = Stage(hosts, slots)
    stage.app.runs.launch = replace(stage.app.runs.launch, work=Job(batch_size=1024))
    return stage


def table(stage: Stage) -> list[str]:
    """The lines of the table, with its caption."""
    region = stage.screen.query_one(RanksPanel).region
    return [line[region.x : region.right] for line in stage.text().splitlines()][
        region.y : region.bottom
    ]


def shown(stage: Stage) -> list[str]:
    """The ranks or hosts that are in view, by the first word of their lines."""
    region = stage.screen.query_one(RankTable).region
    found = [line[region.x : region.right].split() for line in stage.text().splitlines()]
    return [words[0] for words in found[region.y + 1 : region.bottom] if words]


# Order


def test_ranks_stand_by_number_or_by_a_figure_the_worst_first() -> None:
    run = acted(2, 4, late=5).state
    assert [rank.rank for rank in sort_ranks(run.ranks, run, BY["rank"], 9)] == list(range(8))
    assert sort_ranks(run.ranks, run, BY["busy"], 9)[0].rank == 5
    run.ranks[3].memory = 1 << 40
    assert sort_ranks(run.ranks, run, BY["memory"], 9)[0].rank == 3
    run.ranks[6].step = 7
    assert sort_ranks(run.ranks, run, BY["step"], 9)[0].rank == 6


def test_a_rank_without_the_figure_comes_last() -> None:
    run = acted(1, 3).state
    run.ranks[0].timing, run.ranks[0].pace = StepTotals(), RecentSteps()
    assert [rank.rank for rank in sort_ranks(run.ranks, run, BY["per step"], 9)][-1] == 0


def test_once_a_run_is_over_the_order_is_that_of_the_shown_busy_times() -> None:
    session = acted(1, 4)
    busy_seconds = [0.0088, 0.0081, 0.0082, 0.0087]
    make_busy(session, busy_seconds)
    assert usual_order(session.state) == [0, 1, 2, 3], "live, ranks that are alike stay"
    session.finish()
    apply(session)
    assert usual_order(session.state) == [0, 1, 2, 3]


def test_after_a_failure_the_culprit_comes_first_then_the_others_by_number() -> None:
    session = acted(1, 4)
    make_busy(session, [0.011, 0.012, 0.0096, 0.013])
    session.fail(rank=2)
    apply(session)
    assert usual_order(session.state) == [2, 0, 1, 3]


async def test_live_ranks_stand_by_number_and_the_border_claims_no_other_order() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(120, 40)) as pilot:
        assert shown(stage) == ["0", "1", "2", "3"]
        assert "first" not in table(stage)[0]
        stage.session.steps(61, 120, late=2)
        await until(pilot, lambda: "slow first" in table(stage)[0])
        assert shown(stage) == ["2", "0", "1", "3"], "the others keep their places"


def test_during_a_stall_rates_are_not_known_and_other_figures_are_dim() -> None:
    session = acted(1, 2)
    columns = {column.name: column for column in RANK_COLUMNS}

    def cells(*names: str) -> list[TableCell]:
        scale = TrendScale("seconds", (), 0.0)
        ranks = session.state.ranks[:1]
        row = RowContext(ranks, session.state, 0.0, DARK, scale)
        return [columns[name].cell(row) for name in names]

    assert all(cell.text != "-" and not cell.style for cell in cells("samples/s", "busy", "loss"))
    session.say(SESSION, Stalled((0, 1), 30.0))
    apply(session)
    assert [cell.text for cell in cells("samples/s", "sent/s")] == ["-", "-"]
    past_cells = cells("per step", "busy", "loss", "acc")
    assert all(cell.text != "-" and cell.style == "table--dim" for cell in past_cells)


async def test_during_a_stall_nothing_unknown_takes_room() -> None:
    stage = Stage(hosts=1, slots=2)
    async with stage.training(size=(80, 24)) as pilot:
        stage.session.steps(21, 60)
        await until(pilot, lambda: "samples/s" in stage.text())
        stage.session.say(SESSION, Stalled((0, 1), 30.0))
        await until(pilot, lambda: "before the stall" in stage.text())
        await until(pilot, lambda: "- samples/s" not in stage.text())
        panel = stage.screen.query_one(RanksPanel).region
        ranks_lines = stage.text().splitlines()[panel.y : panel.bottom]
        assert not any(line.rstrip().endswith(" -") for line in ranks_lines), ranks_lines
        assert "ETA" not in stage.text()


@pytest.mark.parametrize(
    ("sync", "ahead", "steps"),
    [("ddp", 9, ["48", "49"]), ("ddp", 1, ["40", "41"]), ("local_sgd", 9, ["40", "49"])],
)
def test_ranks_that_meet_in_each_step_have_its_number_also_where_a_host_reports_late(
    sync: str, ahead: int, steps: list[str]
) -> None:
    session = ActedSession(make_plan(cluster(2, 1), Job(batch_size=1024, sync=sync)))
    session.start()
    session.steps(1, 40)
    apply(session)
    run = session.state
    for step in range(41, 41 + ahead):
        session.say(1, stepped(1, step))
    apply(session)
    scale = TrendScale("seconds", (), 0.0)
    step_column = next(column for column in RANK_COLUMNS if column.name == "step")
    rows = [
        RowContext([rank], run, 0.0, DARK, scale, common_step=common_step(run))
        for rank in run.ranks
    ]
    assert [step_column.cell(row).text for row in rows] == steps


def test_where_not_all_fit_marked_ranks_come_first_the_gravest_of_all() -> None:
    session = acted(2, 4, late=5)
    session.say(1, host_events.Exited(7, -9, "SIGKILL"))
    apply(session)
    run = session.state
    run.ranks[2].stalled = True
    for room, first in ((8, [0, 1, 2]), (7, [7, 2, 5])):
        assert [rank.rank for rank in sort_ranks(run.ranks, run, BY["rank"], room)][:3] == first


@pytest.mark.parametrize("size", [(80, 24), (80, 20), (60, 20)])
async def test_no_rank_that_is_marked_is_hidden(size: tuple[int, int]) -> None:
    stage = Stage(hosts=2, slots=4)
    async with stage.shown(size=size) as pilot:
        stage.session.start()
        stage.session.steps(1, 60, late=7)
        await until(pilot, lambda: any("SLOW" in line for line in table(stage)))
        assert size != (80, 24) or shown(stage)[:7] == list("7012345")


@pytest.mark.parametrize("phase", [RankPhase.TRAINING, RankPhase.EVALUATING])
def test_a_rank_that_all_wait_for_is_marked_while_it_tests_the_model_too(phase: RankPhase) -> None:
    session = acted(2, 4, late=5)
    apply(session)
    run = session.state
    run.ranks[5].phase = phase
    assert "SLOW" in state_cell(run.ranks[5], run, run.now).text
    assert "SLOW" not in state_cell(run.ranks[4], run, run.now).text


async def test_the_border_says_what_busy_is_where_all_facts_leave_room() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(120, 40)) as pilot:
        await until(pilot, lambda: BUSY_REMARK in table(stage)[0])
        await pilot.resize_terminal(60, 24)
        facts = "each: ● training, 100 ms per step"
        await until(pilot, lambda: facts in table(stage)[0] and "busy:" not in table(stage)[0])


async def test_a_key_sorts_by_the_next_figure_and_the_border_tells_by_which() -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.shown(size=(120, 40)) as pilot:
        stage.session.start()
        stage.session.steps(1, 60, late=2)
        await until(pilot, lambda: "slow first" in table(stage)[0] and shown(stage)[0] == "2")
        await pilot.press("o")
        await until(pilot, lambda: "by rank" in table(stage)[0])
        await until(pilot, lambda: shown(stage) == ["0", "1", "2", "3"])
        await pilot.press("o")
        await until(pilot, lambda: "by busy" in table(stage)[0] and shown(stage)[0] == "2")
        for _ in range(len(RANK_ORDERS) - 1):
            await pilot.press("o")
        await until(pilot, lambda: "by rank" in table(stage)[0])


async def test_the_rank_that_limits_the_run_comes_first_and_stays_there_at_its_end() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(80, 24)) as pilot:
        assert shown(stage) == ["0", "1", "2", "3"]
        stage.session.steps(61, 120, late=3)
        await stage.heard(pilot, 120)
        await until(pilot, lambda: shown(stage) == ["3", "0", "1", "2"])
        stage.session.fail(rank=1)
        await stage.ended(pilot)
        await until(pilot, lambda: shown(stage)[0] == "1")


# Columns


def test_ranks_agree_on_a_number_within_a_share_and_on_all_else_exactly() -> None:
    assert are_alike([0.100, 0.104])
    assert not are_alike([0.100, 0.110])
    assert are_alike(["training", "training"])
    assert not are_alike(["training", "saving"])
    assert not are_alike([1.0])  # a single rank agrees with nobody
    assert not are_alike([float("nan"), 1.0])
    assert are_alike([0.0, 0.0])


def test_a_column_goes_only_after_a_while_and_comes_back_at_once_to_stay() -> None:
    session = acted(1, 2)
    run, folded = session.state, FoldedColumns()
    memory = next(figure for figure in RANK_COLUMNS if figure.column.title == "memory")

    def look(memories: tuple[int, int]) -> bool:
        for rank, size in zip(run.ranks, memories, strict=True):
            rank.memory = size
        folded.update(RANK_COLUMNS, run.ranks, run)
        return folded.has(memory)

    assert not look((100, 150))
    assert [look((100, 101)) for _ in range(CALM + 1)] == [False] * CALM + [True]
    assert not look((100, 150))
    assert not any(look((100, 101)) for _ in range(2 * CALM)), "it stays"


async def test_what_all_ranks_agree_on_stands_in_the_border_where_there_is_no_room() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training() as pilot:
        await until(pilot, lambda: "per step" in table(stage)[0])
        head, row = table(stage)[1:3]
        assert "per step" not in head
        assert "host" not in head  # there is only one
        assert "●" not in row or "● training" in row
        await pilot.resize_terminal(160, 40)
        await until(pilot, lambda: "per step" in table(stage)[1] and "each:" not in table(stage)[0])


async def test_a_number_is_whole_or_not_there() -> None:
    """At 80 columns memory was once "480" of "480M"."""
    stage = Stage(hosts=1, slots=3)
    async with stage.training() as pilot:
        samples = (host_events.RankSample(rank, 1243.0, 480 << (20 + rank)) for rank in range(3))
        stage.session.say(0, *samples)
        for width in range(40, 130, 3):
            await pilot.resize_terminal(width, 24)
            stage.app.tick()
            await pilot.pause()
            row = table(stage)[2]
            assert "480M" in row or "480" not in row, width
            assert "1243%" in row or "124" not in row, width


async def test_gpus_have_columns_where_they_are_measured() -> None:
    stage = Stage(hosts=2, slots=1)
    async with stage.shown(size=(160, 40)) as pilot:
        stage.session.device = "cuda:0"
        await stage.train(pilot)
        assert "GPU" not in stage.text()
        stage.session.say(1, host_events.GpuSample(1, 97.0, 70 << 30, 80 << 30, 1410, 1980))
        await until(pilot, lambda: "97%" in table(stage)[3])
        assert "70G" in table(stage)[3]
        assert "GPU mem" in table(stage)[1]
        await pilot.press(str(stage.screen.query_one(HostsPanel).number))

        def host_lines() -> list[str]:
            hosts = stage.screen.query_one(HostsPanel).region
            lines = stage.text().splitlines()[hosts.y + 1 : hosts.bottom]
            return [line[hosts.x : hosts.right] for line in lines]

        await until(pilot, lambda: "GPU" in "".join(host_lines()[:1]))
        rows = host_lines()[1:]
        assert [row.count("97%") for row in rows[:2]] == [0, 1]
        stage.session.close()
        await stage.ended(pilot)


async def test_while_ranks_start_their_state_has_the_room_and_tells_for_how_long() -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.shown() as pilot:
        stage.session.say(0, host_events.Launched((0, 1)))
        stage.session.say(0, rank_events.Entered(0, "loading"))
        stage.session.say(1, host_events.Launched((2, 3)), after=70.0)
        await until(pilot, lambda: "loading 1:1" in "".join(table(stage)))
        assert "loss" not in table(stage)[1]


async def test_a_rank_that_is_not_heard_of_says_since_when() -> None:
    stage = Stage(hosts=2, slots=1)
    async with stage.training() as pilot:
        assert "last seen" not in table(stage)[1]
        stage.session.say(1, host_events.RankSample(1, 50.0, 400 << 20), after=12.0)
        # on a busy machine more than 12 s have gone by when it is drawn
        await until(
            pilot, lambda: re.search(r"(1[2-9]|[2-5]\d) s ago", table(stage)[2]) is not None
        )
        assert "ago" not in table(stage)[3]
        head = table(stage)[1]
        for rank in range(2):
            stage.session.say(rank, host_events.RankSample(rank, 5.0, 400 << 20))
        await until(pilot, lambda: "ago" not in "".join(table(stage)))
        assert table(stage)[1] == head, "no column comes and goes, or changes its width"


async def test_the_accuracy_is_that_of_the_last_steps_whatever_came_before() -> None:
    """It was that of the epoch, after a restart of the samples since, and jumped there."""
    run = acted(1, 2, steps=60).state
    rank = run.ranks[0]
    expected = sum(rank.pace.last("correct")) / sum(rank.pace.last("samples"))
    rank.accuracy = 0.01
    assert rank_accuracy(rank) == expected


# Many ranks


def test_the_heat_strip_has_a_cell_for_each_rank_in_lines_of_round_numbers() -> None:
    assert heat_grid(16, 80, 4).lines == 1
    assert (heat_grid(64, 80, 4).cells, heat_grid(64, 80, 4).lines) == (64, 1)
    wide = heat_grid(1024, 160, 8)
    assert (wide.ranks, wide.cells, wide.lines) == (1, 128, 8)
    low = heat_grid(1024, 80, 4)
    assert (low.ranks, low.cells, low.lines) == (4, 64, 4)
    for width in range(1, 300, 7):
        for height in range(1, 30, 4):
            found = heat_grid(1000, width, height)
            assert found.lines <= height
            assert found.ranks * found.cells * found.lines >= 1000


def test_a_cell_is_as_high_as_its_rank_is_late_or_has_the_sign_of_its_state() -> None:
    session = acted(4, 4, late=5)
    session.say(3, host_events.Exited(13, -9, "SIGKILL"))
    session.say(0, rank_events.Entered(2, "saving"))
    apply(session)
    ranks = session.state.ranks
    ready = [rank.pace.median("ready") for rank in ranks]
    cells = heat_cells(ranks, session.state, ready, 0.02, 1)
    assert [cell.text for cell in cells].count("▂") == 13
    assert (cells[5].text, cells[5].style) == ("▲", "table--warn")
    assert cells[13].text == "✗"
    assert cells[2].text == "●"
    shared = heat_cells(ranks, session.state, ready, 0.02, 8)
    assert [cell.text for cell in shared] == ["▲", "✗"]  # the worst of eight


async def test_from_16_ranks_on_there_is_a_heat_strip() -> None:
    for slots, display in ((7, False), (8, True)):
        stage = Stage(hosts=2, slots=slots)
        async with stage.app.run_test(size=(80, 24)) as pilot:
            stage.session.start()
            stage.session.steps(1, 40, late=3)
            strip = stage.screen.query_one(HeatStrip)
            await until(pilot, lambda: bool(shown(stage)) and "▲" in "".join(table(stage)))  # noqa: B023
            assert strip.display == display
            if display:
                await until(pilot, lambda: "    0 ▂▂▂▲▂▂▂▂ ▂▂▂▂▂▂▂▂" in table(stage)[1])  # noqa: B023
            stage.session.close()
            await stage.ended(pilot)


def test_beyond_64_ranks_there_is_a_line_per_host_unless_that_makes_no_fewer() -> None:
    run = acted(8, 9, steps=20).state
    found = table_lines(run, BY["rank"], {2}, room=50)
    assert [line.key for line in found[:3]] == [-1, -2, -3]
    assert [line.key for line in found[3:12]] == list(range(18, 27))
    assert len(found) == 8 + 9
    assert len(table_lines(acted(8, 8, steps=2).state, BY["rank"], set(), 50)) == 64
    assert len(table_lines(acted(70, 1, steps=2).state, BY["rank"], set(), 50)) == 70


async def test_enter_opens_a_host_and_then_a_rank_and_escape_comes_back() -> None:
    stage = many(hosts=3, slots=30)
    async with stage.shown() as pilot:
        stage.session.start()
        stage.session.steps(1, 20)
        await until(pilot, lambda: shown(stage)[:3] == ["0-29", "30-59", "60-89"])
        await pilot.press("1", "down", "enter")
        await until(pilot, lambda: shown(stage)[1:4] == ["30-59", "30", "31"])
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: isinstance(stage.app.screen, RankScreen))
        await until(pilot, lambda: "rank 31 of 90, on node2" in stage.text())
        await pilot.press("escape")
        assert isinstance(stage.app.screen, RunScreen)
        await pilot.press("up", "up", "enter")
        await until(pilot, lambda: shown(stage)[:3] == ["0-29", "30-59", "60-89"])


async def test_the_cursor_stays_on_its_rank_when_others_pass_it() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("1", "down")
        rows = stage.screen.query_one(RankTable)
        assert rows.cursor == 1
        stage.session.steps(61, 120, late=3)
        await stage.heard(pilot, 120)
        await until(pilot, lambda: shown(stage)[0] == "3")
        assert shown(stage)[rows.cursor] == "1"


async def test_what_is_scrolled_to_among_many_is_there() -> None:
    stage = many(hosts=66, slots=1)
    async with stage.shown() as pilot:
        stage.session.start()
        stage.session.steps(1, 20)
        await until(pilot, lambda: len(shown(stage)) > 3)
        await pilot.press("1", "end")
        await until(pilot, lambda: shown(stage)[-1] == "65")
        await pilot.press("home")
        await until(pilot, lambda: shown(stage)[0] == "0")


@pytest.mark.parametrize("seed", range(3))
async def test_any_size_any_name_any_figure(seed: int) -> None:
    chance = random.Random(seed)
    names = ["[red]x[/]", "[bold", "名前" * 20, "x" * 200, "-", "a b"]
    stage = many(hosts=6, slots=chance.choice([1, 3, 12]))
    launch = stage.app.runs.launch
    named = zip(launch.cluster.hosts, names, strict=True)
    lab = replace(launch.cluster, hosts=tuple(replace(host, name=name) for host, name in named))
    stage.app.runs.launch = replace(launch, cluster=lab, selected=lab)
    async with stage.shown() as pilot:
        stage.session.start()
        for first in range(1, 31, 6):
            stage.session.steps(first, first + 5, late=1)
            odd = chance.choice([float("nan"), float("inf"), -1.0, 0.0, 1e300])
            one = rank_events.StepFinished(0, 1, first + 6, odd, odd, odd, odd, odd, odd, odd, 0, 0)
            stage.session.say(0, one, host_events.RankSample(0, 1e9, 1 << 62))
            await pilot.resize_terminal(chance.randrange(40, 301), chance.randrange(10, 101))
            keys = ["1", "o", "enter", "escape", "down", "right", "end", "left", "s", "c", "f"]
            for key in chance.choices(keys, k=4):
                await pilot.press(key)
                stage.text()
            stage.app.tick()
            await pilot.pause()
            stage.text()
        while not isinstance(stage.app.screen, RunScreen):
            await pilot.press("escape")


# Many ranks


def test_what_looks_at_many_ranks_has_a_turn_at_some_ticks_only() -> None:
    assert [ticks(ranks) for ranks in (0, 8, 511, 512, 1024)] == [1, 1, 1, 2, 4]
    header, table = DrawTurn(), DrawTurn()
    came = [(header.has_come(4), table.has_come(4, place=1)) for _ in range(8)]
    assert [sum(column) for column in zip(*came, strict=True)] == [2, 2]
    assert (True, True) not in came


def test_at_the_end_of_a_run_all_is_drawn_at_once_then_in_turns_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "RANKS", 1)
    run, table = acted(1, 4).state, DrawTurn()
    assert [table.has_come_for(run) for _ in range(5)] == [True, False, False, True, False]
    run.phase = RunPhase.ENDED
    assert [table.has_come_for(run) for _ in range(5)] == [True, False, True, False, False]
    other = acted(1, 4).state
    other.phase = RunPhase.ENDED
    assert [table.has_come_for(other) for _ in range(2)] == [True, True], "as of a replay"


def test_costly_parts_of_many_ranks_are_not_drawn_together_when_the_run_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "RANKS", 1)
    run = acted(1, 8).state
    verdict, strip, table = (DrawTurn() for _ in range(3))

    def tick() -> tuple[bool, ...]:
        turns = ((verdict, 1), (strip, 2), (table, 3))
        return tuple(one.has_come_for(run, place) for one, place in turns)

    assert tick() == (True, True, True), "the first drawing"
    for _ in range(3):
        tick()
    run.phase = RunPhase.ENDED
    assert [tick() for _ in range(5)] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (False, False, False),
        (True, False, False),
    ]


async def test_of_many_ranks_the_table_is_drawn_at_its_turn_and_at_once_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.training(size=(120, 40)) as pilot:
        drawn: list[None] = []
        panel = stage.screen.query_one(RanksPanel)
        draw = panel._show_table
        monkeypatch.setattr(panel, "_show_table", lambda run: (drawn.append(None), draw(run)))
        monkeypatch.setattr(turn, "RANKS", 1)
        stage.app.tick()
        drawn.clear()
        for _ in range(8):
            stage.app.tick()
        assert len(drawn) == 2
        drawn.clear()
        panel.action_sort()
        await pilot.pause()
        assert drawn


@pytest.mark.parametrize(
    "shares", [(-1e9, 0.5, 0.5), (1e300, 1e300, 1e300), (0.5, -1e-6, 0.6), (math.inf, -1e9, 1.0)]
)
def test_the_bar_that_splits_a_step_never_is_longer_than_its_cells(
    shares: tuple[float, ...],
) -> None:
    assert len("".join(phase_bar(shares, 8).values())) <= 8


# The choice of columns


async def chosen(stage: Stage, pilot: Pilot[None], *titles: str) -> None:
    """Change the check marks of these columns in the list."""
    await pilot.press("1", "O")
    await until(pilot, lambda: "columns of the table of ranks" in stage.text())
    options = stage.app.screen.query_one(OptionList)
    lines = [str(option.prompt) for option in options.options]
    for title in titles:
        options.highlighted = next(
            number for number, line in enumerate(lines) if line[2:].startswith(f"{title} ")
        )
        await pilot.press("space")


async def test_a_list_of_all_columns_hides_some_and_shows_others() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(80, 24)) as pilot:
        assert "busy trend" in table(stage)[1]
        assert "samples/s" not in table(stage)[1]
        assert "samples/s" in table(stage)[0], "equal on all ranks"
        await chosen(stage, pilot, "busy trend", "phases", "samples/s")
        await pilot.press("enter")
        await until(pilot, lambda: "samples/s" in table(stage)[1])
        assert "memory" in table(stage)[1]
        assert "busy trend" not in table(stage)[1]
        assert "phases" not in table(stage)[1]
        assert "each" not in table(stage)[0]


async def test_a_list_of_columns_that_is_left_changes_nothing() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(80, 24)) as pilot:
        await chosen(stage, pilot, "busy trend")
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.screen)
        await pilot.pause()
        assert "busy trend" in table(stage)[1]


@pytest.mark.parametrize("key", ["enter", "ctrl+s"])
async def test_columns_are_remembered_only_on_request_and_reset_by_a_key(key: str) -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(80, 24)) as pilot:
        await chosen(stage, pilot, "busy trend")
        await pilot.press(key)
        await until(pilot, lambda: "busy trend" not in table(stage)[1])
    is_kept = key == "ctrl+s"
    again = Stage(hosts=1, slots=4)
    async with again.training(size=(80, 24)) as pilot:
        assert ("busy trend" not in table(again)[1]) is is_kept
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "busy trend" in table(again)[1])
