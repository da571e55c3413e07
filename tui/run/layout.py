"""Where the parts of the run screen stand, by the room that there is. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual.geometry import Region

BESIDE_WIDTH = 110
"""Columns from which on charts stand beside each other; below, all parts stand in one column."""
THREE_WIDTH = 150
"""Columns from which on a single row of charts has three."""
HOSTS_WIDTH = 120
"""Columns from which on the hosts stand beside the ranks; below, in place of the charts."""
GRID_WIDTH, GRID_HEIGHT = 170, 44
"""Columns and lines from which on the run and its ranks stand at the left of a grid of charts."""
FRAMED_HEIGHT = 28
"""Lines from which on parts that stand beside each other have frames."""
LEFT_WIDTH, WIDE_LEFT_WIDTH = 68, 84
"""Columns of the ranks at the left of the grid, at the least and at the most."""
CARD_LINES = 9
"""Lines of the card of the run above them, without its frame."""
GRID_LOG_LINES = 10
"""Lines of the log below the grid, with its frame."""
MAX_GRID_CHARTS = 6
"""Charts of the grid."""
MIN_CHART = 4
"""Lines of a chart with its title; with fewer it is left out."""
TALL_CHART = 11
"""Lines of each of two charts above each other, at least."""
MIN_START_LOG = 5
"""Lines of the log below the hosts while a run starts, at the least, if there is room."""
MIN_START_CARD = 5
"""Lines of the card of the run between the hosts and the ranks while it starts, without its frame,
at the least."""
MIN_LOG = 8
"""Lines of the body below which the log is left out."""
GAP = 2
"""Columns between parts without frames."""


@dataclass(frozen=True)
class Contents:
    """What there is to show."""

    charts: int
    rank_lines: int
    """Lines that the ranks take, with the head of their table."""
    shows_hosts: bool = False
    """The hosts take the place of the charts where they do not stand beside the ranks."""
    shows_map: bool = False
    """The map of ranks takes the place of the charts where it has no other."""
    has_hosts: bool = False
    """The hosts have something to tell that the ranks do not."""
    has_map: bool = False
    """There are several ranks to compare over time."""
    has_differed: bool = False
    """They were not alike, so that the map tells more than a chart in its place."""
    has_phases: bool = False
    """It is known how a step splits."""
    host_lines: int = 0
    """Lines that the hosts take, with the head of their table and their warnings; 0 where they
    tell nothing else than the ranks."""
    is_starting: bool = False
    """There is nothing to draw yet."""
    is_over: bool = False
    """Nothing more is said: the log needs less room."""
    has_failed: bool = False
    """The log has the last output of what failed: it needs more room."""
    has_diverged: bool = False
    """The loss tells what went wrong: it gets a row of its own."""


NOWHERE = Region()


@dataclass(frozen=True)
class Arrangement:
    """Where each part stands within the body; `NOWHERE` where it is hidden."""

    charts: tuple[Region, ...] = ()
    rank_map: Region = NOWHERE
    phases: Region = NOWHERE
    ranks: Region = NOWHERE
    hosts: Region = NOWHERE
    card: Region = NOWHERE
    log: Region = NOWHERE
    is_framed: bool = False

    @property
    def regions(self) -> list[Region]:
        """The places of all parts that are shown."""
        parts = (
            *self.charts,
            self.rank_map,
            self.phases,
            self.ranks,
            self.hosts,
            self.card,
            self.log,
        )
        return [region for region in parts if region]


def arrange(width: int, height: int, contents: Contents) -> Arrangement:
    """Arrange the parts of the screen of a run in this room."""
    is_chosen = contents.shows_hosts or contents.shows_map
    if contents.is_starting or not (contents.charts or is_chosen):
        return _without_charts(width, height, contents)
    if width >= GRID_WIDTH and height >= GRID_HEIGHT:
        return _grid(width, height, contents)
    if width >= BESIDE_WIDTH and height >= 2 * MIN_CHART + MIN_LOG:
        return _rows(width, height, contents)
    return _column(width, height, contents)


def _without_charts(width: int, height: int, contents: Contents) -> Arrangement:
    """The hosts on top with all that is said of them, then the ranks; the log gets what is left."""
    is_framed = height >= FRAMED_HEIGHT
    frame = 2 if is_framed else 1
    has_card = width >= GRID_WIDTH and height >= GRID_HEIGHT
    log_height = 0 if height < MIN_LOG else min(MIN_START_LOG, height // 3)
    free_height = height - log_height
    top_height = (contents.host_lines or contents.rank_lines) + frame
    if has_card:
        top_height = max(top_height, CARD_LINES + 2)
    top_height = min(top_height, free_height)
    ranks_height = 0
    if contents.host_lines and contents.rank_lines and free_height >= 2 * MIN_CHART:
        top_height = min(top_height, free_height - MIN_CHART)
        ranks_height = min(contents.rank_lines + frame, free_height - top_height)
    if not log_height:
        top_height = height - ranks_height
    if contents.is_starting and is_framed and width >= BESIDE_WIDTH and not has_card:
        log_height = max(MIN_START_LOG, height // 5)
        card_height = height - top_height - ranks_height - log_height
        if card_height >= MIN_START_CARD + 2:
            return _start_rows(width, top_height, card_height, ranks_height, log_height)
    top, room = Region(0, 0, width, height).split_horizontal(top_height)
    ranks, log = room.split_horizontal(ranks_height)
    card = NOWHERE
    if has_card:
        card, top = top.split_vertical(_left_width(width))
    hosts, ranks = (top, ranks) if contents.host_lines else (NOWHERE, top)
    return Arrangement(
        card=card, hosts=hosts, ranks=ranks or NOWHERE, log=log or NOWHERE, is_framed=is_framed
    )


def _start_rows(
    width: int, hosts_height: int, card_height: int, ranks_height: int, log_height: int
) -> Arrangement:
    """The hosts and the run where charts will be, the ranks and the log where they stay then."""
    ranks_top = hosts_height + card_height
    return Arrangement(
        hosts=Region(0, 0, width, hosts_height),
        card=Region(0, hosts_height, width, card_height),
        ranks=Region(0, ranks_top, width, ranks_height),
        log=Region(0, ranks_top + ranks_height, width, log_height),
        is_framed=True,
    )


def _column(width: int, height: int, contents: Contents) -> Arrangement:
    """One part below the other: the chart gets the room."""
    log_height = 0 if height < MIN_LOG else min(max(2, height // 6), 9)
    # What is over needs no split of its steps: the end of the run says what there is to know.
    has_phases = contents.has_phases and (height >= FRAMED_HEIGHT or not contents.is_over)
    if log_height and contents.has_failed:
        log_height += contents.has_phases - has_phases
    room = height - log_height
    ranks_height = min(contents.rank_lines + 1, max(3, height // 2 + 1))
    phases_height = int(has_phases and room - ranks_height > MIN_CHART)
    top_height = room - ranks_height - phases_height
    if top_height < MIN_CHART:
        ranks_height, top_height, phases_height = room, 0, 0
    top = Region(0, 0, width, top_height)
    return _put_in_place(
        Arrangement(
            charts=_stack(top, contents.charts),
            phases=Region(0, top_height, width, phases_height),
            ranks=Region(0, top_height + phases_height, width, ranks_height),
            log=Region(0, room, width, log_height),
        ),
        top,
        contents,
    )


def _put_in_place(arrangement: Arrangement, room: Region, contents: Contents) -> Arrangement:
    """Put the hosts or the map of ranks into the room of the charts, where they have no other."""
    other_charts = tuple(chart for chart in arrangement.charts if not room.contains_region(chart))
    if contents.shows_hosts and not arrangement.hosts:
        is_in_room = room.contains_region(arrangement.rank_map)
        rank_map = NOWHERE if is_in_room else arrangement.rank_map
        return replace(arrangement, charts=other_charts, rank_map=rank_map, hosts=room)
    if contents.shows_map and not arrangement.rank_map:
        return replace(arrangement, charts=other_charts, rank_map=room)
    return arrangement


def _stack(room: Region, charts: int) -> tuple[Region, ...]:
    """The charts above each other, as many as are high enough to be read."""
    if not room:
        return ()
    num_charts = min(charts, max(1, room.height // TALL_CHART))
    return tuple(_split(room, num_charts, is_vertical=True))


def _rows(width: int, height: int, contents: Contents) -> Arrangement:
    """Rows of charts above the ranks and the log."""
    is_framed = height >= FRAMED_HEIGHT
    frame = 2 if is_framed else 1
    gap = 0 if is_framed else GAP
    log_height = max(3, height // (7 if contents.is_over else 5))
    ranks_height = min(contents.rank_lines + frame, max(4, height * 5 // 12))
    charts_room = Region(0, 0, width, height - log_height - ranks_height)
    has_hosts = contents.has_hosts and width >= HOSTS_WIDTH
    bottom = Region(0, charts_room.height, width, ranks_height)
    ranks, hosts = bottom, NOWHERE
    if has_hosts:
        first, second, hosts = _split(bottom, 3, gap=gap)
        ranks = first.union(second)
    charts, rank_map = _chart_rows(charts_room, contents, gap)
    arrangement = Arrangement(
        charts=charts,
        rank_map=rank_map,
        hosts=hosts,
        ranks=ranks,
        log=Region(0, height - log_height, width, log_height),
        is_framed=is_framed,
    )
    return _put_in_place(arrangement, charts_room, contents)


def _chart_rows(room: Region, contents: Contents, gap: int) -> tuple[tuple[Region, ...], Region]:
    """The charts in one row or two, and beside the last one the ranks over time."""
    if room.height < MIN_CHART:
        return (), NOWHERE
    has_map = contents.has_map and contents.has_differed
    num_parts = contents.charts + has_map
    if room.height < 2 * (TALL_CHART - 3) or num_parts < 3:
        num_beside = 3 if room.width >= THREE_WIDTH else 2
        return tuple(_split(room, min(contents.charts, num_beside), gap=gap)), NOWHERE
    # The first row is that of the loss: it gets what is left.
    upper, lower = room.split_horizontal(room.height - room.height * 2 // 5)
    first_row = _split(upper, 1 if contents.has_diverged else 2, gap=gap)
    num_below = min(2, num_parts - len(first_row))
    second_row = _split(lower, num_below, gap=gap)
    rank_map = second_row.pop() if has_map else NOWHERE
    return (*first_row, *second_row), rank_map


def _grid(width: int, height: int, contents: Contents) -> Arrangement:
    """The run and its ranks at the left, a grid of charts and the log at the right."""
    left, right = Region(0, 0, width, height).split_vertical(_left_width(width))
    charts_room, log = right.split_horizontal(height - GRID_LOG_LINES)
    card, left = left.split_horizontal(CARD_LINES + 2)
    hosts = rank_map = NOWHERE
    if contents.has_hosts:
        left, hosts = left.split_horizontal(left.height * 3 // 5)
    ranks = left
    ranks_height = contents.rank_lines + 2
    has_map = contents.has_map and left.height - ranks_height >= contents.rank_lines + 2
    if has_map:
        ranks, rank_map = left.split_horizontal(ranks_height)
    num_charts = min(contents.charts, MAX_GRID_CHARTS)
    # What the map does not need has room for the last chart: then the loss has a whole row.
    map_height = contents.rank_lines * (2 if contents.has_differed else 1) + 3
    last_chart = NOWHERE
    if num_charts > 2 and rank_map.height - map_height >= TALL_CHART:
        rank_map, last_chart = rank_map.split_horizontal(map_height)
        num_charts -= 1
    charts = _chart_grid(charts_room, num_charts)
    if last_chart:
        charts.append(last_chart)
    arrangement = Arrangement(
        charts=tuple(charts),
        rank_map=rank_map,
        ranks=ranks,
        hosts=hosts,
        card=card,
        log=log,
        is_framed=True,
    )
    return _put_in_place(arrangement, charts_room, contents)


def _left_width(width: int) -> int:
    """Return the columns of the ranks at the left of the grid: a bit less than half of the screen,
    up to what their most important columns need."""
    return min(max(LEFT_WIDTH, width * 21 // 50), WIDE_LEFT_WIDTH)


def _chart_grid(room: Region, charts: int) -> list[Region]:
    """Rows of two charts; of an odd number, the first has a whole row."""
    if not charts:
        return []
    rows = _split(room, -(-charts // 2), is_vertical=True)
    first_row = _split(rows[0], 1 if charts % 2 else 2)
    return first_row + [region for row in rows[1:] for region in _split(row, 2)]


def _split(room: Region, parts: int, *, gap: int = 0, is_vertical: bool = False) -> list[Region]:
    """Split a room into equal parts beside each other, or above each other; the last one takes
    what is left."""
    if not parts:
        return []
    length = room.height if is_vertical else room.width
    ends = [round(length * (index + 1) / parts) for index in range(parts)]
    starts = [0, *(end + gap for end in ends[:-1])]
    if is_vertical:
        return [
            Region(room.x, room.y + start, room.width, end - start)
            for start, end in zip(starts, ends, strict=True)
        ]
    return [
        Region(room.x + start, room.y, end - start, room.height)
        for start, end in zip(starts, ends, strict=True)
    ]
