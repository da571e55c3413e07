"""Numbers as programs print them."""

from __future__ import annotations

import re
import sys
from typing import Any, TypeGuard

_EXPONENT = r"(?:[eE][-+]?\d{1,4})?"
_WORDS = "nan|inf|NaN|Infinity|NAN|INF"
NUMBER = rf"[-+]?(?:\d{{1,30}}(?:\.\d{{0,30}})?{_EXPONENT}|\.\d{{1,30}}{_EXPONENT}|{_WORDS})"
GROUPED = (
    r"[-+]?(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{0,30})?"
    rf"|\d{{1,30}}(?:\.\d{{0,30}})?{_EXPONENT}|{_WORDS})"
)
"""Regular expressions of a number: plain, and one that may have commas between thousands."""
MAX_LENGTH = 160
"""Characters of the longest text that is looked at for a number."""
LARGEST = sys.float_info.max
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_WRAPPED = re.compile(r"(?:np\.float\d{2}|tensor|array|float)\(\s{0,3}\[?([^,)\]]{1,40})")


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return True if a value of JSON is a number that a float can hold: an integer may be
    larger."""
    if isinstance(value, float):
        return True
    return type(value) is int and abs(value) <= LARGEST  # no bool


def number(text: str | float) -> float:
    """Parse a number: "1.69e+04", "10,050", "12.3k", "-100.00%" (-1.0), "nanz",
    "np.float64(0.19)", "[0.1, 0.2]" (its first). Raises: ValueError."""
    try:
        # Nearly all numbers are plain ones, so they do not wait for the checks of the others.
        return float(text)
    except ValueError:
        return _unusual(str(text).strip())


def _unusual(text: str) -> float:
    if len(text) > MAX_LENGTH:
        raise ValueError(text)
    wrapped = _WRAPPED.match(text)
    if wrapped:
        return number(wrapped[1].strip("' "))
    if text[:1] in ("[", "("):
        return float(text.strip("[]() ").split(",")[0])
    if text[-1:] == "%":
        return float(text[:-1].replace(",", "")) / 100
    if text.lstrip("+-").startswith("nan"):
        return float("nan")
    if text[-1:] in _SCALES:
        return float(text[:-1].replace(",", "")) * _SCALES[text[-1]]
    return float(text.strip("'\"").replace(",", ""))
