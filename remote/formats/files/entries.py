"""Entries of a file, each with its values by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from remote.formats.format import Names
from remote.formats.known.by_hand import Counter
from remote.formats.memory import Count, Memory
from remote.formats.names import NEVER
from remote.formats.reader import PIECE
from remote.formats.reading import Reading

MOST_KNOWN = 200_000
"""Entries that are known again where a file is written anew."""
LONGEST = 1 << 25
"""Characters of the longest line, or document."""
BOM = "\ufeff"
_NAMES = {"Step": "step", "Epoch": "epoch", "time": NEVER, "Time": NEVER, "wall_time": NEVER}


class Entries:
    """Makes readings of entries. An entry that comes again, as its file was written anew, tells
    nothing.

    `names`: what names mean in this kind of file, beside `remote.formats.names`. `from_0`: steps
    and epochs are counted from 0, whatever the first one is.
    """

    def __init__(self, names: Mapping[str, str] | None = None, *, from_0: bool = False) -> None:
        self._names = Names(_NAMES | dict(names or {}))
        self._memory, self._counter = Memory(), Counter()
        if from_0:
            self._memory.step_count, self._memory.epoch_count = Count(1, 2), Count(1, 2)
        self._known: set[bytes] = set()

    def reading(self, pairs: Iterable[tuple[str, float]]) -> Reading | None:
        """The reading of an entry; None if it tells nothing."""
        values: dict[str, float] = {}
        for name, value in pairs:
            known, factor = self._names(name)
            if known is not NEVER and known not in values:
                values[known] = value * factor
        if ("step" in values or "epoch" in values) and self._is_known(values):
            return None
        return self._counter.located(values, self._memory)

    def _is_known(self, values: dict[str, float]) -> bool:
        mark = blake2b(repr(sorted(values.items())).encode(errors="replace"), digest_size=8)
        if mark.digest() in self._known:
            return True
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known.add(mark.digest())
        return False


class Lines:
    """Puts the pieces of long lines together, and leaves out byte order marks."""

    def __init__(self) -> None:
        self._rest = ""

    def of(self, text: str) -> list[str]:
        """The whole lines of a text."""
        text = text.replace(BOM, "")
        if len(text) >= PIECE and "\n" not in text:
            self._rest = (self._rest + text)[:LONGEST]
            return []
        text = self._rest + text
        self._rest = ""
        return text.split("\n")
