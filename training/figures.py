"""Numbers as a person reads them."""

from __future__ import annotations


def loss(value: float) -> str:
    """A loss with its significant digits: 0.0312, 2.3026, 1782.4, 3.684e+30, nan, inf."""
    size = abs(value)
    if size == 0 or 0.001 <= size < 100:
        return f"{value:.4f}"
    return f"{value:.5g}" if 100 <= size < 99_999 else f"{value:.3e}"
