"""How much of the network a run uses, where the rate of a link is known."""

from __future__ import annotations

import re

import pytest

from remote.run.findings.link_use import LinkUse
from remote.run.series.definitions import Unit
from tests.kit.acted import until
from tests.kit.checks import hello
from tests.kit.dashboard import Stage
from training.wire.host_events import HostSample
from tui.charts.chart_list import ChartList
from tui.charts.units import format_value
from tui.run.components.link_text import describe_link_use
from tui.run.outcome import result_captions

MB = 1_000_000


def say_network(stage: Stage, sent: int, speeds: tuple[tuple[str, int], ...]) -> None:
    """Two hosts with these links, of which the second one sends so many bytes per second."""
    for host, bytes_sent in enumerate((sent // 2, sent)):
        stage.session.say(host, hello(host + 1, link_speeds=speeds))
        for second in range(20):
            stage.session.say(host, HostSample((50.0,), 1, 2, sent=bytes_sent), after=second % 2)


@pytest.mark.parametrize("size", [(120, 40), (160, 40)])
async def test_the_header_says_how_much_of_the_link_is_used(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.training(size=size) as pilot:
        say_network(stage, 25 * MB, (("eth1", 1000),))
        stage.session.steps(61, 62)
        await stage.heard(pilot, 62)
        await until(pilot, lambda: "23.8M of 119M/s, 20%" in stage.text())


def test_nothing_that_is_sent_is_0_and_no_dash() -> None:
    assert describe_link_use(LinkUse(0, 0.0, 125e6)) == "0B of 119M/s, 0%"
    assert format_value(0.0, Unit.BYTES_PER_SECOND) == "0B/s"


async def test_without_a_known_rate_the_header_says_what_is_sent() -> None:
    stage = Stage()
    async with stage.training(size=(160, 40)) as pilot:
        say_network(stage, 25 * MB, ())
        stage.session.steps(61, 62)
        await stage.heard(pilot, 62)
        assert "sent/s" in stage.text()
        assert not re.search(r"\d of \S+/s", stage.text())


@pytest.mark.parametrize(("sent", "has_line"), [(60 * MB, True), (2 * MB, False)])
async def test_the_chart_of_the_network_has_a_line_at_the_rate_of_the_link(
    sent: int, has_line: bool
) -> None:
    stage = Stage()
    async with stage.training(size=(80, 40)) as pilot:
        say_network(stage, sent, (("eth1", 1000),))
        stage.session.steps(61, 62)
        await stage.heard(pilot, 62)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(stage.app.screen, ChartList))
        await pilot.press(*"out", "enter")
        await until(pilot, lambda: "network out" in stage.text())
        await until(pilot, lambda: " of 119M" in stage.text())
        labels = re.findall(r"^ *(\d+)M┤", stage.text(), re.MULTILINE)
        assert any(int(label) >= 100 for label in labels) is has_line


async def test_the_end_of_a_run_says_what_it_was_bound_by() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        say_network(stage, 25 * MB, (("eth1", 1000),))
        stage.session.steps(61, 70)
        stage.session.finish(70, 1)
        await stage.ended(pilot)
        (line,) = (line for line in result_captions(stage.session.state) if "of each step" in line)
        assert (
            re.fullmatch(r"\d+% of each step is sync; network of node2: \S+M of 119M/s, \d+%", line)
            or "is compute" in line
        ), line
        await until(pilot, lambda: line[:16] in stage.text())
