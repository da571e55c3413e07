"""Reads what one rank of a script prints, and the files that are followed for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from remote.events import Parsed
from remote.formats.files import FileReader, reader_of, source_of
from remote.formats.reading import Reading, ReadingKind
from remote.formats.rules import Rule
from remote.run.output.step_match import MatchedStep, PrintedStep, StepMatch
from remote.run.series.step_times import NAN
from remote.sanitise import shown
from training.wire.events import Event, Record
from training.wire.host_events import OutputText
from training.wire.rank_events import ScriptMetrics, StepFinished
from training.wire.step_block import StepColumns

FirstReadings = dict[tuple[int, str], tuple[int, str]]
"""By attempt and file, the host that reported of it first, and what."""
GRACE = 1.0
"""Seconds that the first step in a log waits for the watch: it may be the same step, and comes by
another pipe."""
COUNTED = 1.0
"""Seconds between two counts of the lines that were not read. Those of a log file have one time."""
MOST_FILES = 100
"""Files of a rank that are read."""
MOST_NAMES = 10_000
"""Values of which it is known whether output or a file reported them first."""
STEADY = 0.02
"""The share by which the steps of the run, as a log gives them, change until that is reported."""


class RankOutput:
    """What one rank prints in one attempt, and the files that are followed for it.

    Its output is a source, and so is each file (see `source_of`). One source reports the steps, the
    first that has any, and one each value: what other sources say of the same is left out.
    """

    def __init__(
        self, rank: int, attempt: int, rules: tuple[Rule, ...], *, may_be_watched: bool
    ) -> None:
        self.rank = rank
        self.attempt = attempt
        self._rules = rules
        self.waits: list[tuple[Record, int]] = []
        """What is held back, each with the step that it names, or 0."""
        self._may_be_watched = may_be_watched
        self._readers: dict[str, FileReader] = {}
        """By source."""
        self._own_sources: dict[str, bool] = {}
        """Whether no other host reports the source."""
        self._step_source: str | None = None
        self._value_sources: dict[str, str] = {}
        self._match = StepMatch()
        self._step = 0
        """The newest step that a log has reported,"""
        self._step_at = NAN
        """and when."""
        self._parsed = Parsed(rank, "")
        self._counted_at = -math.inf

    # What comes

    def see_step(self, step: StepFinished, time: float, now: float) -> None:
        """Take in a step that ended at this time, as the watch reports `now`, see `see_steps`."""
        self._may_be_watched = False
        self._match.see_steps(step.step, (step.seconds,), (time,), (step.loss,), now)

    def see_steps(self, newest_step: int, steps: StepColumns, now: float) -> None:
        """Take in steps that the watch reports: the same ones in a log no longer count."""
        self._may_be_watched = False
        self._match.see_steps(newest_step, steps.seconds, steps.times, steps.loss, now)

    def read(
        self, text: OutputText, record: Record, first_readings: FirstReadings
    ) -> Sequence[Record]:
        """Read text that was printed, or written to a file that is followed.

        A file of a folder that hosts share is read once: each of them passes it on.
        """
        source = source_of(text.path) if text.path else ""
        reader = self._readers.get(source)
        if reader is None:
            # A script that writes a file for each step would take all memory.
            if source and len(self._readers) >= MOST_FILES:
                return ()
            reader = reader_of(source, self._rules)
            self._readers[source] = reader
        readings = reader.read(text.text)
        if source and readings and not self._is_own(source, readings[0], record, first_readings):
            return ()
        events = self._derive_events(source, readings, record.time)
        derived_records = [
            (replace(record, event=event), named_step) for event, named_step in events
        ]
        derived_records += [(count_record, 0) for count_record in self._count_lines(record)]
        has_step = any(isinstance(derived.event, StepFinished) for derived, _ in derived_records)
        if self.waits or (has_step and self._may_be_watched):
            self.waits += derived_records
            return ()
        return [derived_record for derived_record, _ in derived_records]

    def _is_own(
        self, source: str, reading: Reading, record: Record, first_readings: FirstReadings
    ) -> bool:
        """Return True if no other host has reported the first reading of this source before."""
        if source not in self._own_sources:
            first_value = next(iter(reading.values.items()))
            reading_mark = repr((reading.step, reading.epoch, first_value))
            first_report = (record.host, reading_mark)
            host, first_mark = first_readings.setdefault((self.attempt, source), first_report)
            self._own_sources[source] = host == record.host or first_mark != reading_mark
        return self._own_sources[source]

    def end(self, record: Record) -> Sequence[Record]:
        """Take in that the rank has ended. Return the rest of what it printed."""
        # Lines are counted once more, however short ago that was done.
        self._counted_at = -math.inf
        return [*self.release(), *self._count_lines(record)]

    def is_due(self, now: float) -> bool:
        """Return True if the watch has reported a step, or has had the time to."""
        return self._match.seen > 0 or now >= self.waits[0][0].time + GRACE

    def release(self) -> Sequence[Record]:
        """Return what was held back; if the watch has reported steps, without steps."""
        self._may_be_watched = False
        held_records = self.waits
        self.waits = []
        if not held_records or not self._match.seen:
            return [record for record, _ in held_records]
        released_records = []
        lines = [_find_printed(record.event, named_step) for record, named_step in held_records]
        self._match.take_lines(lines, held_records[-1][0].time)
        for record, named_step in held_records:
            event = _without_step(record.event, self._match.find_step(named_step))
            if event:
                released_records.append(replace(record, event=event))
        return released_records

    # What it reports

    def _derive_events(
        self, source: str, readings: Sequence[Reading], now: float
    ) -> Iterator[tuple[Event, int]]:
        """Yield the steps and metrics of readings that came together, each with the step that it
        names."""
        numbers = self._number_steps(readings) if self._reports_steps(source, readings) else []
        steps_made = numbers[-1] - self._step if numbers else 0
        step_seconds = NAN
        if steps_made > 0 and now > self._step_at:
            step_seconds = (now - self._step_at) / steps_made
        next_numbers = iter(numbers)
        if not source:
            lines = [
                PrintedStep(reading.step, reading.values.get("loss", NAN)) for reading in readings
            ]
            self._match.take_lines(lines, now)
        for reading in readings:
            values = self._values_of(source, reading.values)
            self._match.total = reading.steps or self._match.total
            if reading.kind is ReadingKind.STEP and numbers:
                self._match.printed = reading.step or self._match.printed
                step_before = self._step
                self._step = next(next_numbers)
                if not self._match.seen and self._step != step_before:
                    yield self._make_step(reading, values, step_seconds), reading.step
            if self._match.seen:  # the watch measures these itself
                values.pop("step_seconds", 0.0)
                values.pop("data_seconds", 0.0)
            if values:
                step = self._step_of(source, reading)
                named_values = tuple(values.items())
                metrics = ScriptMetrics(self.rank, 0, reading.epoch, named_values)
                yield _of_step(metrics, step), reading.step
        if numbers:
            self._step_at = now
            self._match.compare()

    def _reports_steps(self, source: str, readings: Sequence[Reading]) -> bool:
        if not any(reading.kind is ReadingKind.STEP for reading in readings):
            return False
        if self._step_source is None:
            self._step_source = source
        return self._step_source == source

    def _values_of(self, source: str, values: dict[str, float]) -> dict[str, float]:
        """Return the values that this source was the first to report."""
        value_sources = self._value_sources
        for name in values:
            if len(value_sources) < MOST_NAMES:
                value_sources.setdefault(name, source)
        # With a single source, nothing can be there twice.
        if len(self._readers) == 1:
            return dict(values)
        return {
            name: value
            for name, value in values.items()
            if value_sources.get(name, source) == source
        }

    def _step_of(self, source: str, reading: Reading) -> MatchedStep:
        """Return the step that a reading is of.

        A file may report it much later; one of epochs alone counts them as steps.
        """
        is_watched = self._match.seen > 0
        if is_watched and not source:
            return self._match.find_step(reading.step)
        if reading.step:
            time = self._match.find_time(reading.step)
            return MatchedStep(reading.step, is_watched, time)
        step = self._match.seen or self._step
        if source:
            step = step or math.ceil(reading.epoch)
        return MatchedStep(step, is_named=False)

    def _number_steps(self, readings: Sequence[Reading]) -> list[int]:
        """Return the numbers of the steps in readings; those without a number are counted."""
        step_numbers = list[int]()
        newest_step = self._step
        for reading in readings:
            if reading.kind is ReadingKind.STEP:
                # A frame of a progress bar may be one step behind a line.
                is_behind = reading.step == newest_step - 1 > 0
                if not is_behind:
                    newest_step = reading.step or newest_step + 1
                step_numbers.append(newest_step)
        return step_numbers

    def _make_step(
        self, reading: Reading, values: dict[str, float], seconds: float
    ) -> StepFinished:
        """Return the step of a reading, whose figures are taken out of the values."""
        is_known = "loss" in values
        epoch = max(0, math.ceil(reading.epoch)) if math.isfinite(reading.epoch) else 0
        return StepFinished(
            self.rank,
            epoch,
            self._step,
            values.pop("loss", NAN),
            values.pop("step_seconds", seconds),
            data=values.pop("data_seconds", 0.0),
            loss_known=is_known,
        )

    def _count_lines(self, record: Record) -> Sequence[Record]:
        """Return how the output is read, if that is news; lines not read are counted at times."""
        output_reader = self._readers.get("")
        format_name = output_reader.format if output_reader else ""
        num_unread = output_reader.unread if output_reader else 0
        read_files = self._read_files()
        all_steps = self._match.count_steps()
        last_parsed = self._parsed
        has_changed = (format_name, read_files) != (last_parsed.format, last_parsed.files)
        has_changed = has_changed or abs(all_steps - last_parsed.steps) > STEADY * last_parsed.steps
        is_due = not self._counted_at < record.time < self._counted_at + COUNTED
        if not has_changed and not (is_due and num_unread != last_parsed.unread):
            return ()
        self._counted_at = record.time
        self._parsed = Parsed(self.rank, format_name, num_unread, all_steps, read_files)
        return [replace(record, event=self._parsed)]

    def _read_files(self) -> tuple[str, ...]:
        """Return the files that are read, fit to be shown."""
        sources = self._own_sources.items()
        return tuple(" ".join(shown(source)) for source, is_own in sources if is_own)


def _find_printed(event: Event, named_step: int) -> PrintedStep:
    """Return what the line said that an event is of."""
    if isinstance(event, StepFinished) and event.loss_known:
        return PrintedStep(named_step, event.loss)
    return PrintedStep(named_step, NAN)


def _without_step(event: Event, step: MatchedStep) -> Event | None:
    """Return a step as the metrics that its log reported, of this step by the watch."""
    match event:
        case StepFinished() if not event.loss_known:
            return None
        case StepFinished():
            values = (("loss", event.loss),)
            return _of_step(ScriptMetrics(event.rank, 0, float(event.epoch), values), step)
        case ScriptMetrics():
            return _of_step(event, step)
    return event


def _of_step(metrics: ScriptMetrics, step: MatchedStep) -> ScriptMetrics:
    """Return values as those of a step."""
    return replace(metrics, step=step.step, names_step=step.is_named, step_time=step.time)
