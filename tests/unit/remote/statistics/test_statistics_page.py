"""The example of docs/explanation/statistics.md is what the code finds."""

from __future__ import annotations

import re

import numpy as np

from remote.statistics.comparison import compare_cells
from remote.statistics.interval import Interval, mean_interval
from tests.kit.agents import ROOT

PAGE = ROOT / "docs" / "explanation" / "statistics.md"


def read_example() -> dict[str, list[str]]:
    """Return the rows of the table of the example by their first cell, without empty cells."""
    _, _, example = PAGE.read_text().partition("### An example")
    rows = re.findall(r"^\|(.*)\|$", example.partition("\n## ")[0], re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {row[0]: [cell for cell in row[1:] if cell] for row in cells}


def write_bounds(interval: Interval, digits: int) -> str:
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def test_the_example_of_the_page_is_what_the_code_finds() -> None:
    rows = read_example()
    table = np.array([rows[f"block {number}"] for number in (1, 2, 3)], dtype=float)
    cells = [mean_interval(table[:, cell]) for cell in range(3)]
    compared = compare_cells(table, [(1, 0), (2, 0)])
    assert rows["value of the cell"] == [f"{cell.value:.2f}" for cell in cells]
    assert rows["its own interval"] == [write_bounds(cell, 2) for cell in cells]
    assert rows["ratio to A"] == [f"{pair.ratio.value:.3f}" for pair in compared.pairs]
    assert rows["interval of the ratio"] == [write_bounds(pair.ratio, 3) for pair in compared.pairs]
    assert np.allclose(np.array(rows["p"], dtype=float), [pair.p for pair in compared.pairs], 0.1)
    assert rows["finding"] == [pair.finding.value for pair in compared.pairs]
    assert f"only {compared.noise:.1%}" in PAGE.read_text()
