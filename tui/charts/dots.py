"""The characters of a cell of dots."""

from __future__ import annotations

from tui.charts import raster
from tui.kit import palette

BRAILLE = "".join(chr(0x2800 + dots) if dots else " " for dots in range(256))
"""The characters of a cell's dots."""


def _ascii(dots: int) -> str:
    rows = [bool(dots & int(weights.sum())) for weights in raster.WEIGHTS]
    match sum(rows):
        case 0:
            return " "
        case 1:
            return "'--."[rows.index(True)]
        case 2:
            return ":"
    return "|"


ASCII = "".join(map(_ascii, range(256)))
"""The same for terminals without UTF-8: ' - . for a dot's height, : and | for more of them."""


def characters() -> str:
    """Those that this terminal can show, by the bits of the dots."""
    return BRAILLE if palette.utf8() else ASCII
