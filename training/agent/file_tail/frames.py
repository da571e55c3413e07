"""The records of an event file of TensorBoard, each as a line of text."""

from __future__ import annotations

from base64 import b64encode
from functools import cache

from training.agent.host.redaction import Redaction

LONGEST = 1 << 14
"""Bytes of a longest record that is passed on: those with numbers are short, those with images,
graphs and histograms are not."""
LENGTH = 8
CHECK = 4
HEAD = LENGTH + CHECK
"""A record is the length of its data and a checksum of this, the data and a checksum of that."""
_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8


class Frames:
    """Cuts the stream of bytes of an event file into records, in base64. `problem`: what is wrong
    with the file. Damaged data is left out; after a damaged length, nothing can be told apart."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._rest = b""
        self._skip = self._read = 0
        self._is_over = False
        self.problem = ""

    def feed(self, block: bytes) -> str | None:
        """Return the records that this block completes, a line each; or None."""
        if self._is_over:
            return None
        skipped = min(self._skip, len(block))
        self._skip -= skipped
        data = self._rest + block[skipped:]
        lines = list[str]()
        at = 0
        while len(data) - at >= HEAD and self._has_length(data[at : at + HEAD]):
            size = int.from_bytes(data[at : at + LENGTH], "little")
            end = at + HEAD + size + CHECK
            if size > LONGEST:
                self._skip, at = max(0, end - len(data)), min(end, len(data))
                continue
            if end > len(data):
                break
            lines += self._line(data[at + HEAD : end])
            at = end
        self._rest = data[at:]
        return "\n".join(lines) or None

    def end(self) -> str | None:
        """Return nothing: half a record has no meaning."""
        return None

    def _has_length(self, head: bytes) -> bool:
        """Check by its checksum that a record begins here."""
        if _is_whole(head):
            self._read += 1
            return True
        self._is_over = True
        self.problem = (
            f"it is damaged after {self._read:,} records, and its rest is not read"
            if self._read
            else "it is not an event file of TensorBoard, and is not read"
        )
        return False

    def _line(self, record: bytes) -> list[str]:
        """Return the line of a record; none if it holds a secret, which base64 would not hide."""
        if not _is_whole(record):
            self.problem = "damaged records are left out"
            return []
        data = record[:-CHECK]
        text = data.decode(errors="replace")
        return [b64encode(data).decode()] if self._redaction.hide(text) == text else []


def _is_whole(data: bytes) -> bool:
    """Return True if data has its checksum behind it."""
    return masked_crc(data[:-CHECK]) == int.from_bytes(data[-CHECK:], "little")


def masked_crc(data: bytes) -> int:
    """Return the checksum of TensorFlow's records: CRC-32C, rotated, plus a constant."""
    table = _table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


@cache
def _table() -> list[int]:
    """Return the CRC-32C of each byte, which the standard library has not."""
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ _POLYNOMIAL * (value & 1) for value in table]
    return table
