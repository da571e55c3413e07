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
        self._pending_bytes = b""
        self._bytes_to_skip = self._record_count = 0
        self._is_over = False
        self.problem = ""

    def feed(self, block: bytes) -> str | None:
        """Return the records that this block completes, a line each; or None."""
        if self._is_over:
            return None
        skipped_bytes = min(self._bytes_to_skip, len(block))
        self._bytes_to_skip -= skipped_bytes
        data = self._pending_bytes + block[skipped_bytes:]
        lines = list[str]()
        record_start = 0
        while len(data) - record_start >= HEAD and self._has_length(
            data[record_start : record_start + HEAD]
        ):
            data_size = int.from_bytes(data[record_start : record_start + LENGTH], "little")
            record_end = record_start + HEAD + data_size + CHECK
            if data_size > LONGEST:
                self._bytes_to_skip, record_start = (
                    max(0, record_end - len(data)),
                    min(record_end, len(data)),
                )
                continue
            if record_end > len(data):
                break
            lines += self._encode_record(data[record_start + HEAD : record_end])
            record_start = record_end
        self._pending_bytes = data[record_start:]
        return "\n".join(lines) or None

    def end(self) -> str | None:
        """Return nothing: half a record has no meaning."""
        return None

    def _has_length(self, record_head: bytes) -> bool:
        """Check by its checksum that a record begins here."""
        if _is_whole(record_head):
            self._record_count += 1
            return True
        self._is_over = True
        self.problem = (
            f"it is damaged after {self._record_count:,} records, and its rest is not read"
            if self._record_count
            else "it is not an event file of TensorBoard, and is not read"
        )
        return False

    def _encode_record(self, record: bytes) -> list[str]:
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
    crc_table = _make_crc_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc_table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    # Masked as in LevelDB, since a checksum of data that holds checksums is a weak one.
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


@cache
def _make_crc_table() -> list[int]:
    """Return the CRC-32C of each byte, which the standard library has not."""
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ _POLYNOMIAL * (value & 1) for value in table]
    return table
