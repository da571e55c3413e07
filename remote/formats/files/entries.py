"""Entries of a file, each with its values by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from remote.formats.memory import BY_TRAINING, CountBase, Memory
from remote.formats.names import NEVER
from remote.formats.patterns import NameTable
from remote.formats.reader import PIECE
from remote.formats.reading import Reading
from remote.formats.step_counter import StepCounter

MAX_KNOWN = 200_000
"""Entries that are recognised if a file is written anew."""
MAX_LENGTH = 1 << 25
"""Characters of the longest line, or document."""
BOM = "\ufeff"
_NAMES = {"Step": "step", "Epoch": "epoch", "time": NEVER, "Time": NEVER, "wall_time": NEVER}


class EntryFile:
    """Reads a file of entries. An entry that comes again, as its file was written anew, reports
    nothing."""

    unread = 0

    def __init__(self, format_name: str) -> None:
        self.format = ""
        self._format_name = format_name
        self._piece = ""
        self._begin()

    def _begin(self, own_names: Mapping[str, str] | None = None, *, from_0: bool = False) -> None:
        """Begin to read entries. `own_names`: what names mean in this kind of file, beside
        `remote.formats.names`. `from_0`: steps and epochs are counted from 0, whatever the first
        one is."""
        self._names = NameTable({**_NAMES, **(own_names or {})})
        self._memory = Memory()
        self._counter = StepCounter()
        self._known: set[bytes] = set()
        if from_0:
            self._memory.step_base = CountBase(1, BY_TRAINING)
            self._memory.epoch_base = CountBase(1, BY_TRAINING)

    def read(self, text: str) -> list[Reading]:
        """Return what the lines report; a piece of a long one waits for its end."""
        # It would be a part of the name of the first column.
        text = text.replace(BOM, "")
        if len(text) >= PIECE and "\n" not in text:
            self._piece = (self._piece + text)[:MAX_LENGTH]
            return []
        text = self._piece + text
        self._piece = ""
        readings: list[Reading] = []
        for line in text.split("\n"):
            readings += self._read_line(line)
        if readings:
            self.format = self.format or self._format_name
        return readings

    def _read_line(self, line: str) -> list[Reading]:
        raise NotImplementedError

    def _reading(self, entry: Iterable[tuple[str, float]]) -> list[Reading]:
        """Return the reading of an entry; none if it reports nothing."""
        values: dict[str, float] = {}
        for printed, value in entry:
            self._names.add(values, printed, value)
        # Entries without a place may be equal and yet both be new.
        has_place = "step" in values or "epoch" in values
        if has_place and self._is_known(values):
            return []
        reading = self._counter.reading(values, self._memory)
        return [] if reading is None else [reading]

    def _is_known(self, values: dict[str, float]) -> bool:
        # A digest takes less memory than the values.
        text = repr(sorted(values.items())).encode(errors="replace")
        digest = blake2b(text, digest_size=8).digest()
        if digest in self._known:
            return True
        # Better to report old entries again than to let a long run fill the memory.
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known.add(digest)
        return False
