"""Relates the numbers of steps in the log of a rank to the steps that the watch counts in it."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from decimal import Decimal
from statistics import median
from typing import NamedTuple

LATE = 0.05
"""The share of a run by which a log may be ahead of the watch, and not begin at a checkpoint."""
LAG = 0.2
"""Seconds by which a line may come before or after the report of the step that it names: the watch
reports quick steps together, and lines come by another pipe."""
TURN = 0.05
"""Seconds within which all comes that the agent has read of a rank in one turn: steps of up to a
second, and the lines that were printed with them."""
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
KEPT_STEPS = 2048
"""The newest steps whose losses and times are kept for the lines that name them."""
SAME_LOSS = 1e-5
"""The share by which a printed loss may differ from that of its step, beyond its last digit."""
COARSE = 0.01
"""From this share on, the last digit of a loss is too coarse to say which step it is of."""
CLEARLY = 10
"""How many times nearer it has to be to the loss of this step than to that of the next one."""


class PrintedStep(NamedTuple):
    """What a line says of the step that it is of."""

    number: int
    """0 if it names none."""
    loss: float
    """NaN if it has none."""


class MatchedStep(NamedTuple):
    """The step by the count of the watch that a line is of."""

    step: int
    is_named: bool
    """The line names it. Otherwise it is the newest one of the watch, or one shortly before."""
    time: float = 0.0
    """When the rank made it, by the clock of its host; 0: unknown."""


class SeenSteps:
    """The newest steps that the watch has reported, without a gap."""

    def __init__(self) -> None:
        self.newest = 0
        """0 if it has reported none."""
        self._times = array("d")
        self._losses = array("d")

    def extend(self, newest: int, times: Sequence[float], losses: Sequence[float]) -> None:
        """Take in the next steps, of which `newest` is the last one."""
        if newest - len(times) != self.newest:
            del self._times[:]
            del self._losses[:]
        self.newest = newest
        self._times.extend(times)
        self._losses.extend(losses)
        del self._times[:-KEPT_STEPS]
        del self._losses[:-KEPT_STEPS]

    def find_time(self, step: int) -> float:
        """Return when a step was made; 0 if that is not known."""
        place = step - self.newest - 1
        return self._times[place] if -len(self._times) <= place < 0 else 0.0

    def find_loss(self, step: int) -> float:
        """Return the loss of a step; NaN if that is not known."""
        place = step - self.newest - 1
        return self._losses[place] if -len(self._losses) <= place < 0 else math.nan


class LossEvidence:
    """What the printed losses say of how lines count.

    If the losses of most lines are those of the steps of the same number (offset 0) or of the next
    ones (offset 1), the lines count as the watch does, or from 0.
    """

    def __init__(self) -> None:
        self._num_compared = 0
        self._num_same = [0, 0]
        """By offset."""

    def compare(self, printed_loss: float, losses: Sequence[float]) -> None:
        """Compare a printed loss with those of the step that its line names and of the next one,
        which are NaN where they are not known."""
        most = _find_rounding(printed_loss)
        if math.isnan(losses[0]) or most > COARSE * abs(printed_loss):
            return
        distances = [math.inf if math.isnan(loss) else abs(loss - printed_loss) for loss in losses]
        nearest = min(distances)
        farthest = max(distances)
        if nearest > most:
            # It may be that of the next step, if that is not known yet.
            self._num_compared += math.isfinite(farthest)
        elif CLEARLY * nearest < farthest:  # else both steps have about the same loss
            self._num_compared += 1
            self._num_same[distances.index(nearest)] += 1

    def find_offset(self) -> int | None:
        """Return what to add to a printed number; None if the losses do not say."""
        for offset, num_same in enumerate(self._num_same):
            if 2 * num_same > self._num_compared:
                return offset
        return None


def _find_rounding(printed: float) -> float:
    """Return by how much a number may differ from the one that was printed with its digits;
    infinite if it is no number."""
    if not math.isfinite(printed):
        return math.inf
    exponent = Decimal(repr(printed)).normalize().as_tuple().exponent
    return 0.5 * 10.0 ** int(exponent) + SAME_LOSS * abs(printed)


class StepMatch:
    """What a log says of steps, and what the watch has seen by then."""

    def __init__(self) -> None:
        self.printed = 0
        """The newest step by the number in the log."""
        self.total = 0
        """Steps of the whole run, as printed."""
        self._steps = SeenSteps()
        self._step_seconds: deque[float] = deque(maxlen=PACE)
        """Of the newest steps by the watch."""
        self._newest_reports: deque[tuple[float, int]] = deque()
        """When those of the newest turn came, and the first step of each."""
        self._first_printed = 0
        """A step by the number in the log,"""
        self._first_seen = 0
        """and by the watch at that time."""
        self._evidence = LossEvidence()
        self._goes_back = False
        """Lines have named a step before one that they had named: they count something else."""
        self._are_lines_far = False
        """Lines have been far from the watch for long: so they seem to count something else."""
        self._named = 0
        """The last step that a line named."""
        self._are_lines_near = True
        """The last line of those that came together names about the newest step of the watch."""
        self._far_reports = 0
        self._far_at = 0
        """The newest step of the watch when lines were far."""
        self._last_number = 0
        """The last number of the lines that came together,"""
        self._last_seen = 0
        """and the newest step by the watch at that time."""
        self._number_before = 0
        """The same of the lines that came before them."""
        self._seen_before = 0
        self._ahead = math.inf
        """By how many the log is ahead of the watch, at the least."""

    @property
    def seen(self) -> int:
        """Return the newest step that the watch has reported; 0 if it has reported none."""
        return self._steps.newest

    def see_steps(
        self,
        newest_step: int,
        seconds: Iterable[float],
        times: Sequence[float],
        losses: Sequence[float],
        now: float,
    ) -> None:
        """Take in steps that the watch reports `now`: how long each took, when it ended, and its
        loss."""
        self._newest_reports.append((now, newest_step - len(times) + 1))
        while self._newest_reports[0][0] < now - TURN:
            self._newest_reports.popleft()
        self._steps.extend(newest_step, times, losses)
        self._step_seconds.extend(filter(math.isfinite, seconds))

    def compare(self) -> None:
        """Compare the newest step in the log with the newest one of the watch."""
        if not self.printed:
            return
        if not self._first_printed:
            self._first_printed = self.printed
            self._first_seen = self.seen
        self._ahead = min(self._ahead, self.printed - self.seen)

    def take_lines(self, lines: Iterable[PrintedStep], now: float) -> None:
        """Take in what lines say that come together, before they are mapped.

        The agent reads what quick ranks print in a second at once. So only the last line says
        whether they name about what the watch has come to.
        """
        last_number = 0
        for line in lines:
            last_number = line.number or last_number
            if line.number and self.seen:
                losses = [self._steps.find_loss(line.number + offset) for offset in (0, 1)]
                self._evidence.compare(line.loss, losses)
        if not last_number or not self.seen:
            return
        self._number_before = self._last_number
        self._seen_before = self._last_seen
        self._last_number = last_number
        self._last_seen = self.seen
        self._are_lines_near = self._is_near(last_number, now)
        if self._are_lines_near:
            self._far_reports = 0
        elif self._step_seconds and self.seen != self._far_at:
            self._far_reports += 1
            self._far_at = self.seen
            self._are_lines_far = self._are_lines_far or self._far_reports >= FAR_REPORTS

    def _is_near(self, number: int, now: float) -> bool:
        """Return True if the watch has just reported the step of this number, or soon will."""
        earliest = min(
            (step for when, step in self._newest_reports if when >= now - TURN), default=self.seen
        )
        slack = self._find_slack()
        return earliest - slack <= number <= self.seen + slack

    def _find_slack(self) -> float:
        """Return by how many steps a line may come before or after the report of its step."""
        step_seconds = median(self._step_seconds) if self._step_seconds else 0.0
        return max(NEAR, LAG / step_seconds + 1) if step_seconds > 0 else NEAR

    def find_step(self, printed_number: int) -> MatchedStep:
        """Map a step number from a log line (0: it has none) to the watch's own count.

        It is the same number, or the next one if lines count from 0, if their losses are those of
        these steps, or as long as lines name about what the watch has come to. Once they go back,
        they count something else, such as batches of which several are a step.
        """
        if printed_number <= 0:
            return MatchedStep(self.seen, is_named=False)
        if printed_number < self._named - NEAR and self._step_seconds:
            self._goes_back = True
        self._named = printed_number
        offset = self._evidence.find_offset()
        step = printed_number + (offset or 0)
        if offset is None:
            is_named = self._are_lines_near and not self._are_lines_far
        else:
            is_named = step <= self.seen + self._find_slack()
        if not is_named or self._goes_back:
            step = self._place(printed_number)
            is_named = False
        return MatchedStep(step, is_named, self.find_time(step))

    def find_time(self, step: int) -> float:
        """Return when the rank made a step, by the clock of its host; 0 if that is not known."""
        return self._steps.find_time(step)

    def _place(self, number: int) -> int:
        """Return the step of a line that counts something else.

        It is the newest one of the watch. Lines that have come together are spread over the steps
        since the lines before them, since they were not all printed after the last one.
        """
        numbers_made = self._last_number - self._number_before
        numbers_left = self._last_number - number
        if not 0 < numbers_left < numbers_made:
            return self.seen
        steps_made = self._last_seen - self._seen_before
        return max(1, self.seen - round(numbers_left * steps_made / numbers_made))

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
