"""The records of an event file of TensorBoard, each as a line of text."""

from __future__ import annotations

from base64 import b64encode

from training.agent.host.redaction import Redaction

LONGEST = 1 << 14
"""Bytes of a longest record that is passed on: those with numbers are short, those with images,
graphs and histograms are not."""
IMPOSSIBLE = 1 << 40
"""Bytes that no record has: the file is no event file."""
HEAD, TAIL = 12, 4
"""A record is the length of its data, a checksum, the data, a checksum."""


class Frames:
    """Cuts the stream of bytes of an event file into records, in base64."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._rest = b""
        self._skip = 0
        self._is_other = False

    def feed(self, block: bytes) -> str | None:
        """The records that this block completes, a line each; or None."""
        if self._is_other:
            return None
        skipped = min(self._skip, len(block))
        self._skip -= skipped
        data = self._rest + block[skipped:]
        lines, at = list[str](), 0
        while len(data) - at >= HEAD and not self._is_other:
            size = int.from_bytes(data[at : at + 8], "little")
            start, end = at + HEAD, at + HEAD + size + TAIL
            self._is_other = size >= IMPOSSIBLE
            if size > LONGEST:
                self._skip, at = max(0, end - len(data)), min(end, len(data))
                continue
            if end > len(data):
                break
            lines += self._line(data[start : end - TAIL])
            at = end
        self._rest = data[at:]
        return "\n".join(lines) or None

    def end(self) -> str | None:
        """Half a record tells nothing."""
        return None

    def _line(self, record: bytes) -> list[str]:
        """The line of a record; none where it holds a secret, which base64 would not hide."""
        text = record.decode(errors="replace")
        return [b64encode(record).decode()] if self._redaction.hide(text) == text else []
