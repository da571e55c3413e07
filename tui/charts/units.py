"""How values of charts are written, and in what unit the ticks of an axis are."""

from __future__ import annotations

import math

from msgspec import structs

from remote.format import number, rate, short_size, step_time
from remote.run.series.definitions import Unit
from tui.charts.axis import Axis, Tick, number_ticks, tick_label

BYTE_UNITS = ("B", "K", "M", "G", "T")


def format_value(value: float, unit: Unit) -> str:
    """Return a value of a chart with its unit, shortly: "52 ms", "3.2G", "1.5M/s"."""
    if unit is Unit.SECONDS:
        return step_time(value)
    if unit in (Unit.BYTES, Unit.BYTES_PER_SECOND):
        # A value of a chart is known, so that 0 is no dash.
        text = short_size(value) if value else "0B"
        return f"{text}/s" if unit is Unit.BYTES_PER_SECOND else text
    if unit is Unit.SHARE:
        return f"{number(value)}%"
    if unit is Unit.PER_SECOND:
        return rate(value)
    return number(value)


def axis_scale(extent: float, unit: Unit) -> tuple[float, str]:
    """Return the size of the unit in which an axis up to `extent` has round ticks, and its name."""
    if unit is Unit.SECONDS:
        return (1e-3, " ms") if extent < 1 else (1.0, " s")
    if unit in (Unit.BYTES, Unit.BYTES_PER_SECOND):
        power = min(max(int(math.log2(max(extent, 1)) // 10), 0), len(BYTE_UNITS) - 1)
        return 1024.0**power, BYTE_UNITS[power]
    return 1.0, "%" if unit is Unit.SHARE else ""


def format_tick(value: float, unit: Unit) -> str:
    """Return a value that is round in a unit."""
    scale, name = axis_scale(value, unit)
    return tick_label(value / scale) + name


def value_ticks(axis: Axis, max_count: int, unit: Unit) -> list[Tick]:
    """Return at most about `max_count` ticks at round numbers of a unit, with its name."""
    scale, name = axis_scale(max(abs(axis.low), abs(axis.high)), unit)
    scaled = structs.replace(axis, low=axis.low / scale, high=axis.high / scale)
    ticks = number_ticks(scaled, max_count)
    return [(value * scale, text + name if value else "0") for value, text in ticks]
