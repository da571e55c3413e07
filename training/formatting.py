"""Numbers as a person reads them. Standard library only."""

from __future__ import annotations


def format_loss(value: float) -> str:
    """Write a loss with its significant digits: 0.0312, 2.3026, 1782.4, 3.684e+30, nan, inf."""
    absolute_loss = abs(value)
    if absolute_loss == 0 or 0.001 <= absolute_loss < 100:
        return f"{value:.4f}"
    if 100 <= absolute_loss < 99_999:
        return f"{value:.5g}"
    return f"{value:.3e}"
