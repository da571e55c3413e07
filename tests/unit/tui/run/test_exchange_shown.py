"""Scripts of which only collectives are seen: what is shown of these, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote.plan.plan import Script
from remote.record import summary
from remote.run.apply import apply_record
from remote.run.findings.script_visibility import sees_nothing
from remote.run.run_state import RunState
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import START, History
from tests.kit.scripts import script, seen, started
from training.wire.events import Event
from training.wire.rank_events import Collectives, StepFinished
from tui.charts.chart_view import ChartView
from tui.charts.kinds import available
from tui.charts.make_drawing import make_drawing
from tui.run.components.exchange_text import describe_exchange
from tui.run.components.header import script_notes
from tui.run.components.rank_facts import rank_facts
from tui.run.outcome import has_results, result_table
from tui.run.progress_lines import ProgressLines


def exchanging(seconds: int = 25, shares: tuple[float, ...] = (1.0, 0.0)) -> History:
    """Two ranks exchange 1,000 bytes in ten calls a second, blocked for these shares of it."""
    history = started(script(1, 2))
    for rank in range(2):
        history.rank(rank, Collectives(rank, 1, 100, name="recv", inside=True))
    for _ in range(seconds):
        reports = [
            Collectives(rank, 10, 1_000, share, 1.0, "send") for rank, share in enumerate(shares)
        ]
        history.say(0, *reports, after=0.5)
    return history


@pytest.mark.parametrize(
    ("shares", "blocked"), [((1.0, 0.0), "0% (rank 1) to 100% (rank 0)"), ((0.5, 0.55), "52%")]
)
def test_now_and_then_it_is_said_how_far_they_are(shares: tuple[float, ...], blocked: str) -> None:
    history = exchanging(shares=shares)
    state = RunState(history.plan)
    now = START
    progress = ProgressLines(lambda: now)
    lines: list[str] = []
    for record in history.records:
        now = record.time
        apply_record(state, record)
        lines += progress.lines(state, printed=False)
    assert len(lines) == 2
    assert lines[0].startswith("1")
    assert lines[1].endswith(f" calls each, 2.0 KiB/s, blocked {blocked}")


def test_where_nothing_is_exchanged_any_more_no_line_says_so() -> None:
    state = exchanging().state()
    now = START
    progress = ProgressLines(lambda: now)
    found = []
    for _ in range(3):
        now += 20
        found += progress.lines(state, printed=False)
    assert found == ["251 calls each, 2.0 KiB/s, blocked 0% (rank 1) to 100% (rank 0)"]


def test_a_single_call_is_one() -> None:
    state = exchanging(seconds=0).state()
    assert describe_exchange(state.script_ranks) == "1 call each"
    state = exchanging(seconds=1, shares=(1.0,)).state()
    assert describe_exchange(state.script_ranks).startswith("1 to 11 calls each")


def test_the_header_says_which_line_shows_more_of_a_script() -> None:
    (_, sight) = script_notes(exchanging().state())
    assert "calls of torch.distributed, but no steps and no loss" in sight
    assert '"step 20/1000 loss 0.53"' in sight


def test_the_header_of_a_run_that_is_over_says_who_waited() -> None:
    facts = list(script_notes(exchanging().closed()))
    assert "251 calls each, blocked 0.00 s (rank 1) to 25.00 s (rank 0)" in facts


def test_the_table_at_the_end_and_the_summary_have_the_totals() -> None:
    run = exchanging().closed()
    assert has_results(run)
    assert not sees_nothing(run)
    assert result_table(run) == (
        ["host", "rank", "collectives", "exchanged", "blocked"],
        [
            ("node1", "0", "251", "24.5 KiB", "25.00 s"),
            ("node1", "1", "251", "24.5 KiB", "0.00 s"),
            ("all", "", "502", "49.0 KiB", "25.00 s"),
        ],
    )
    totals = {"count": 251, "bytes": 25_100, "seconds": 25.0, "newest": "send"}
    assert summary.summarize(run)["ranks"][0]["collectives"] == totals


def test_the_page_of_a_rank_and_the_charts_have_them() -> None:
    run = exchanging().state()
    facts = dict(rank_facts(run.ranks[0], run, run.now, is_roomy=True))
    assert facts["exchange"] == (
        "251 collectives, 24.5 KiB, blocked for 25.00 s, now 100% of the time, 1.0 KiB/s, last send"
    )
    assert {"exchanged", "collectives", "blocked"} <= {kind.id for kind in available(run)}
    assert run.curves.whole("collectives").mean[-1] == 20
    assert run.curves.of("blocked", 0).mean[-1] == 1.0


def test_before_a_step_charts_are_drawn_by_time() -> None:
    history = exchanging()
    for by_time in (True, False):
        run = history.state()
        kind = next(kind for kind in available(run) if kind.id == "exchanged")
        drawing = make_drawing(run, kind, ChartView())
        assert drawing.options.clock == by_time
        assert len(set(drawing.lines[0].x.tolist())) > 20 or not by_time
        history.rank(0, seen(0, 1, 1.0, compute=0.1))


def test_once_they_make_steps_these_are_shown_instead() -> None:
    history = exchanging()
    for step in range(1, 4):
        for rank in range(2):
            history.rank(rank, seen(rank, step, 1.0, compute=0.1))
    columns, _ = result_table(history.closed())
    assert "collectives" not in columns


async def test_columns_of_the_table_of_ranks_come_and_go() -> None:
    stage = Stage(hosts=1, slots=2)
    stage.app.runs.launch = replace(stage.app.runs.launch, work=Script(("train.py",)))
    async with stage.shown(size=(140, 30)) as pilot:
        stage.session.start()
        reports: list[Event] = [
            Collectives(rank, 10 + rank, 4096, 0.25, 1.0, "all_gather") for rank in range(2)
        ]
        stage.session.say(0, *reports)
        await until(pilot, lambda: "all_gather" in stage.text())
        for text in ("calls", "blocked", "exch/s", "last call", "25%"):
            assert text in stage.text(), stage.text()
        stage.session.say(0, *(StepFinished(rank, 0, 1, 2.5, 0.5) for rank in range(2)))
        await until(pilot, lambda: "last call" not in stage.text())
