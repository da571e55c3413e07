"""Text from elsewhere, fit to be drawn."""

from __future__ import annotations

import re

from remote.sanitise import reveal

LONGEST = 4_000
"""Characters of a text that are shown."""
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """The text without what a terminal acts on, and not longer than can be shown. What it does not
    draw is an escape."""
    cut = text[:LONGEST] + "…" if len(text) > LONGEST else text
    return _UNFIT.sub("", reveal(cut))
