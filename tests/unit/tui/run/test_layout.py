"""Where the parts of the run screen stand, at every size."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest

from tui.run.layout import Arrangement, Contents, arrange

FOUR_RANKS = Contents(charts=6, rank_lines=5, has_map=True, has_differed=True, has_phases=True)


def body(columns: int, lines: int, header: int = 3) -> tuple[int, int]:
    """The room between header and keys of a terminal."""
    return columns, lines - header - 1


@pytest.mark.parametrize("width", [20, 80, 109, 110, 120, 150, 170, 320])
@pytest.mark.parametrize("shows_hosts", [False, True])
def test_parts_fill_the_screen_and_none_covers_another(width: int, shows_hosts: bool) -> None:
    for height, rank_lines, charts, has_hosts in product(
        (*range(1, 24), 28, 35, 43, 44, 56, 90), (2, 9, 200), (1, 3, 6), (False, True)
    ):
        contents = Contents(
            charts,
            rank_lines,
            shows_hosts=shows_hosts,
            has_hosts=has_hosts,
            has_map=rank_lines < 60,
            has_differed=charts > 1,
            has_phases=True,
        )
        found = arrange(width, height, contents)
        case = f"{width}x{height}, {contents}: {found}"
        for region in found.regions:
            assert region.x >= 0 <= region.y, case
            assert region.right <= width, case
            assert region.bottom <= height, case
        for one, other in combinations(found.regions, 2):
            assert not one.intersection(other), case
        gaps = 0 if found.is_framed else 2 * height
        covered = sum(region.area for region in found.regions)
        assert width * height - covered <= 2 * gaps, case
        assert found.ranks, case


def test_at_80x24_the_loss_gets_the_room() -> None:
    found = arrange(*body(80, 24), FOUR_RANKS)
    [loss] = found.charts
    assert loss.height == 10
    assert loss.height > found.ranks.height > found.log.height
    assert found.phases.height == 1
    assert found.ranks.height == 6  # a rule, the head of the table, and every rank


def test_eight_ranks_fit_in_24_lines() -> None:
    found = arrange(*body(80, 24), replace(FOUR_RANKS, rank_lines=9))
    assert found.ranks.height == 10
    assert found.charts


def test_at_60x18_all_is_there_in_small() -> None:
    found = arrange(*body(60, 18), FOUR_RANKS)
    assert [part.height for part in (found.charts[0], found.ranks, found.log)] == [5, 6, 2]


def test_at_120x40_loss_and_step_stand_above_accuracy_and_the_map() -> None:
    found = arrange(*body(120, 40, header=4), FOUR_RANKS)
    loss, step, accuracy = found.charts
    assert loss.y == step.y < accuracy.y == found.rank_map.y < found.ranks.y < found.log.y
    assert loss.height > accuracy.height
    assert found.is_framed
    assert not found.phases
    assert not found.hosts


def test_at_200x60_the_loss_has_a_row_right_of_the_ranks_and_their_map() -> None:
    found = arrange(*body(200, 60, header=4), FOUR_RANKS)
    loss, *others = found.charts
    assert len(others) == 5
    assert loss.width == 116
    assert {chart.x for chart in others} == {0, 84, 142}
    assert found.card.x == found.ranks.x == found.rank_map.x == 0
    assert found.rank_map.height >= 10
    assert found.log.height == 10


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("rank_lines", [0, 5, 300])
def test_while_a_run_starts_there_are_no_charts_and_all_hosts_are_seen(
    width: int, rank_lines: int
) -> None:
    for height in (3, 8, 18, 34, 55):
        contents = replace(FOUR_RANKS, rank_lines=rank_lines, host_lines=7, is_starting=True)
        found = arrange(width, height, contents)
        assert not found.charts
        assert found.hosts
        assert height < 18 or bool(found.ranks) == bool(rank_lines)
        assert sum(region.area for region in found.regions) == width * height
        if height >= 18:
            frame = 2 if found.is_framed else 1
            assert found.hosts.height >= 7 + frame or rank_lines == 300
            assert found.log.height >= 5


def test_while_a_run_starts_ranks_and_log_stand_where_they_stay() -> None:
    room = body(120, 40, header=6)
    started = arrange(*room, FOUR_RANKS)
    starting = arrange(*room, replace(FOUR_RANKS, host_lines=2, is_starting=True))
    assert starting.ranks == started.ranks
    assert starting.log == started.log
    assert starting.hosts.bottom == starting.card.y
    assert starting.card.bottom == starting.ranks.y
    many_hosts = arrange(*room, replace(FOUR_RANKS, host_lines=14, is_starting=True))
    assert not many_hosts.card, "the hosts need the room"
    assert many_hosts.hosts.height == 14 + 2


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_where_no_chart_has_data_the_ranks_and_the_log_get_the_room(width: int) -> None:
    for height in (1, 5, 18, 34, 55):
        found = arrange(width, height, replace(FOUR_RANKS, charts=0))
        assert found.ranks
        assert sum(region.area for region in found.regions) == width * height
        assert height < 18 or found.log.height > height // 3


def test_ranks_that_are_alike_leave_the_place_of_their_map_to_a_chart() -> None:
    alike = arrange(*body(120, 40), replace(FOUR_RANKS, has_differed=False))
    assert not alike.rank_map
    assert len(alike.charts) == 4
    large = arrange(*body(200, 60), replace(FOUR_RANKS, has_differed=False))
    assert large.rank_map


def test_a_run_without_several_ranks_has_no_map() -> None:
    found = arrange(*body(120, 40), replace(FOUR_RANKS, has_map=False))
    assert found.rank_map == Arrangement().rank_map
    assert len(found.charts) == 4
