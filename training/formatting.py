"""Numbers as a person reads them. Standard library only."""

from __future__ import annotations


def format_loss(value: float) -> str:
    """Write a loss in about six characters: 0.0312, 2.3026, 12.346, 1782.4, 3.7e30, nan, inf."""
    absolute_loss = abs(value)
    if absolute_loss == 0 or 0.001 <= absolute_loss < 10:
        return f"{value:.4f}"
    if 10 <= absolute_loss < 99_999:
        return f"{value:.5g}"
    return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
