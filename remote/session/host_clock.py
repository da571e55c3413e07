"""How far a host's clock is ahead of the launcher's, measured again where the host's records show
that it has moved."""

from __future__ import annotations

from training.wire.events import Record
from training.wire.host_events import HostSample, RecordsDropped

LATE = 10
"""Samples in a row that come late, one a second, until the host's clock counts as set back and not
its network as slow."""


class HostClock:
    """`offset` is how many seconds the host's clock is ahead, 0 until it is measured.

    The time of a record less the offset is never later than now, and goes on from record to record,
    but for `step` seconds.
    """

    def __init__(self, step: float) -> None:
        self.offset = 0.0
        self._step = step
        self._latest = float("-inf")  # when its newest record was written, by the launcher's clock
        # when the last sample was written, by the host's clock, and when it came
        self._sampled = (0.0, 0.0)
        self._late = 0

    def measure(self, host_time: float, now: float) -> None:
        """Note that the host's clock shows `host_time` at this moment."""
        self.offset = host_time - now
        self._latest = now
        self._late = 0

    def moved(self, record: Record, now: float) -> bool:
        """Return True if the host's clock must have moved before it wrote this record, which has
        just come; `offset` is then right."""
        # It bears the time at which the journal was read, and older records follow.
        if isinstance(record.event, RecordsDropped):
            return False
        written_at = record.time - self.offset
        if written_at > now + self._step or self._is_late(record, now):
            self.measure(record.time, now)
            return True
        if written_at < self._latest - self._step:  # a host writes its records in order
            self.offset = record.time - self._latest
            return True
        self._latest = max(self._latest, written_at)
        return False

    def _is_late(self, record: Record, now: float) -> bool:
        """Return True if samples have come late for long, though they come as they are written.
        What has waited on the way comes at once."""
        if not isinstance(record.event, HostSample):
            return False
        last_written, last_came = self._sampled
        self._sampled = record.time, now
        delay = now - (record.time - self.offset)
        # What waited on the way arrives in a burst: written a second apart, and come together.
        written_apart = record.time - last_written
        is_live = now - last_came > written_apart / 2
        if delay > self._step and is_live:
            self._late += 1
        else:
            self._late = 0
        return self._late >= LATE
