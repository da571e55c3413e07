"""Relates the numbers of steps in the log of a rank to the steps that the watch counts in it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from statistics import median

LATE = 0.05
"""The share of a run by which a log may be ahead of the watch, and not begin at a checkpoint."""
LAG = 0.2
"""Seconds by which a line may come before or after the report of the step that it names: the watch
reports quick steps together, and lines come by another pipe."""
NEAR = 2
"""Slower steps by which it may: of a GPU, the watch reports a step later."""
PACE = 20
"""Steps by which the seconds of one are measured."""
FAR_REPORTS = 3
"""Reports of the watch in a row from which lines are far: then they count something else. One may
just come late."""
ALIKE = 1.5
"""Up to here, so many steps by the watch for one by the log, or the other way round, are still one
for one."""


class StepMatch:
    """What a log says of steps, and what the watch has seen by then."""

    def __init__(self) -> None:
        self.seen = 0
        """The newest step that the watch has reported; 0 if it has reported none."""
        self.printed = 0
        """The newest step by the number in the log."""
        self.total = 0
        """Steps of the whole run, as printed."""
        self._step_seconds: deque[float] = deque(maxlen=PACE)
        """Of the newest steps by the watch."""
        self._first_printed = 0
        """A step by the number in the log,"""
        self._first_seen = 0
        """and by the watch at that time."""
        self._counts_alike = True
        """Lines and the watch count alike, as far as is known."""
        self._named = 0
        """The last step that a line named."""
        self._are_lines_near = True
        """The last line of those that came together names about the newest step of the watch."""
        self._far_reports = 0
        self._far_at = 0
        """The newest step of the watch when lines were far."""
        self._ahead = math.inf
        """By how many the log is ahead of the watch, at the least."""

    def see_steps(self, newest_step: int, seconds: Iterable[float]) -> None:
        """Take in steps that the watch reports, each of which took so many seconds."""
        self.seen = newest_step
        self._step_seconds.extend(filter(math.isfinite, seconds))

    def compare(self) -> None:
        """Compare the newest step in the log with the newest one of the watch."""
        if not self.printed:
            return
        if not self._first_printed:
            self._first_printed = self.printed
            self._first_seen = self.seen
        self._ahead = min(self._ahead, self.printed - self.seen)

    def take_lines(self, printed_numbers: Iterable[int]) -> None:
        """Take in the step numbers (0: none) of lines that come together, before they are mapped.

        Of a quick program many lines come together, up to a second after the first of them. So only
        the last one says whether they name about what the watch has come to.
        """
        last_number = 0
        for number in printed_numbers:
            last_number = number or last_number
        if not last_number or not self.seen:
            return
        step_seconds = median(self._step_seconds) if self._step_seconds else 0.0
        distance = abs(last_number - self.seen)
        is_near = distance <= NEAR or (step_seconds > 0 and distance < LAG / step_seconds + 1)
        self._are_lines_near = is_near
        if is_near:
            self._far_reports = 0
        elif step_seconds and self.seen != self._far_at:
            self._far_reports += 1
            self._far_at = self.seen
            self._counts_alike = self._counts_alike and self._far_reports < FAR_REPORTS

    def find_step(self, printed_number: int) -> int:
        """Map a step number from a log line (0: it has none) to the watch's own count.

        It is the same number as long as lines name about what the watch has come to, and never go
        back; else they count something else, such as batches of which several are a step.
        """
        if printed_number <= 0 or not self._counts_alike:
            return self.seen
        goes_back = printed_number < self._named - NEAR
        self._counts_alike = not (goes_back and self._step_seconds)
        self._named = printed_number
        return printed_number if self._are_lines_near and self._counts_alike else self.seen

    def count_steps(self) -> int:
        """Return the steps of the whole run: as printed, or by the count of the watch.

        The watch knows of no steps before a checkpoint.
        """
        if not self.seen or not self.total or not self.printed:
            return self.total
        num_printed = self.printed - self._first_printed
        steps_per_number = 1.0
        if num_printed > LATE * self.total and self._first_seen:
            steps_per_number = (self.seen - self._first_seen) / num_printed
        if not 1 / ALIKE < steps_per_number < ALIKE:
            num_left = round((self.total - self.printed) * steps_per_number)
            return self.seen + max(0, num_left)
        steps_before = self._ahead if self._ahead > LATE * self.total else 0
        return max(self.seen, self.total - int(steps_before))
