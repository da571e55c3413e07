"""Matrices of numbers as shaded cells."""

from __future__ import annotations

import pytest

from tui.report.matrix import STRONGEST, draw_matrix


@pytest.mark.parametrize(
    ("apart", "shades"), [(False, [0.5, 1.0, 0.1, 0.05]), (True, [0.5, 1.0, 1.0, 0.5])]
)
def test_cells_are_as_dark_as_their_numbers(apart: bool, shades: list[float]) -> None:
    figure = draw_matrix([[5.0, 10.0], [1.0, 0.5]], "ab", ("x", "y"), str, shades_rows_apart=apart)
    found = [patch.get_alpha() for patch in figure.axes[0].patches]
    assert found == pytest.approx([STRONGEST * shade for shade in shades])
