"""Reads the steps and metrics out of what a script prints, or writes to files that are followed.

This is done on the operator's side, out of recorded text: whoever reads a record from its beginning
on finds the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median

from remote.events import Parsed, expand
from remote.formats import Reading, ReadingKind, Rule
from remote.formats.files import FileReader, reader_of, source_of
from remote.plan.plan import Plan, Script
from remote.run.output.worker_lines import WorkerLines
from remote.run.series.step_times import NAN
from remote.sanitise import shown
from training.wire.events import Event, Record
from training.wire.host_events import Exited, OutputText, WorkerJoined
from training.wire.rank_events import ScriptMetrics, StepFinished

Expand = Callable[[Record], Sequence[Record]]
_FirstReadings = dict[tuple[int, str], tuple[int, str]]
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
LATE = 0.05
"""The share of a run by which a log may be ahead of the watch, and not begin at a checkpoint."""
LAG = 0.2
"""Seconds by which a line may come before or after the report of the step that it names: the watch
reports quick steps together, and lines come by another pipe."""
NEAR = 2
"""Slower steps by which it may: of a GPU, the watch reports a step later."""
PACE = 20
"""Steps by which the seconds of one are measured."""
ALIKE = 1.5
"""Up to here, so many steps by the watch for one by the log, or the other way round, are still one
for one."""


def expander(plan: Plan) -> Expand:
    """Return what takes apart the records of a run, given in order from the first one on.

    See `training.wire.events.expand`. In a run of a script, text is followed by the steps and
    metrics that are read out of it.
    """
    if not isinstance(plan.work, Script):
        return expand
    return Expander(plan.world_size, watch=plan.work.watch, rules=plan.work.rules)


class Expander:
    """Takes apart the records of a script, see `expander`. It may be pickled.

    `watch`: ranks may report their steps themselves. `rules` come first when output is read.
    """

    def __init__(self, ranks: int, *, watch: bool, rules: tuple[Rule, ...] = ()) -> None:
        self._lines = WorkerLines(ranks)
        self._attempt = 0
        self._watch = watch
        self._rules = rules
        self._outputs: dict[tuple[int, int], _RankOutput] = {}
        """By host and rank."""
        self._first_readings: _FirstReadings = {}
        self._waiting: set[tuple[int, int]] = set()
        """The outputs of which something is held back."""

    def __call__(self, record: Record) -> Sequence[Record]:
        """Return the records that a record stands for."""
        record_parts = expand(record)
        is_output = type(record.event) in (OutputText, Exited)
        if type(record.event) is WorkerJoined:
            self._lines.take_join(record.host, record.event)
        if not is_output and not self._waiting:
            return record_parts
        expanded_records = self._release(record)
        for record_part in record_parts:
            expanded_records.append(record_part)
            if is_output:
                expanded_records += self._read(record_part)
        # The watch may have reported a step just now: those of the log have waited for that.
        return [*expanded_records, *self._release(record)]

    def _read(self, record: Record) -> Sequence[Record]:
        event = record.event
        if not 0 <= getattr(event, "rank", -1) < self._lines.world_size:
            return ()
        if record.attempt > self._attempt:
            self._attempt = record.attempt
            self._lines.forget()
        match event:
            case OutputText():
                return self._read_text(event, record)
            case StepFinished(rank):
                rank_output = self._find_output(record, rank)
                if rank_output:
                    rank_output.see_step(event)
            case Exited(process):
                return [
                    derived_record
                    for rank in self._lines.workers_of(record.host, process)
                    for derived_record in self._end_output(record, rank)
                ]
        return ()

    def _find_output(self, record: Record, rank: int) -> _RankOutput | None:
        """Return what reads the output of a rank; None if the record is of an attempt before."""
        output_key = record.host, rank
        rank_output = self._outputs.get(output_key)
        if rank_output is None or record.attempt > rank_output.attempt:
            rank_output = _RankOutput(rank, record.attempt, self._rules, may_be_watched=self._watch)
            self._outputs[output_key] = rank_output
        return rank_output if record.attempt == rank_output.attempt else None

    def _read_text(self, text: OutputText, record: Record) -> Sequence[Record]:
        had_workers = self._lines.has_workers(record.host, text.rank)
        derived_records = self._lines.find_joined(record, text)
        if derived_records and not had_workers:  # what is held back may be of any of them
            self._outputs.pop((record.host, text.rank), None)
            self._waiting.discard((record.host, text.rank))
        for rank, is_named, part in self._lines.split(record, text):
            rank_output = self._find_output(record, rank)
            if rank_output is None:
                continue
            readings = rank_output.read(part, record, self._first_readings)
            if not is_named:
                readings = self._lines.select(record.host, text.rank, readings)
            derived_records += readings
            self._note_waiting(record.host, rank_output)
        return derived_records

    def _end_output(self, record: Record, rank: int) -> Sequence[Record]:
        rank_output = self._find_output(record, rank)
        if rank_output is None:
            return ()
        derived_records = rank_output.end(record)
        self._note_waiting(record.host, rank_output)
        return derived_records

    def _note_waiting(self, host: int, rank_output: _RankOutput) -> None:
        if rank_output.waits:
            self._waiting.add((host, rank_output.rank))
        else:
            self._waiting.discard((host, rank_output.rank))

    def _release(self, record: Record) -> list[Record]:
        """Release what ranks of the host have printed and has waited long enough."""
        released_records: list[Record] = []
        # A copy, since the set shrinks meanwhile; in order, so that a replay comes to the same
        # records.
        for output_key in sorted(self._waiting):
            rank_output = self._outputs[output_key]
            if output_key[0] == record.host and rank_output.is_due(record.time):
                self._waiting.discard(output_key)
                released_records += rank_output.release()
        return released_records


class _RankOutput:
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
        self._seen = 0
        """The newest step that the watch has reported."""
        self._step_seconds: deque[float] = deque(maxlen=PACE)
        """Of the newest steps by the watch."""
        self._step = 0
        """The newest step that a log has reported,"""
        self._step_at = NAN
        """and when."""
        self._first = (0, 0)
        """A step by the number in the log, and by the watch at that time."""
        self._printed = 0
        """The newest step by the number in the log."""
        self._counts_alike = True
        """Lines and the watch count alike, as far as is known."""
        self._named = 0
        """The last step that a line named."""
        self._ahead = math.inf
        """By how many the log is ahead of the watch, at the least."""
        self._parsed = Parsed(rank, "")
        self._counted_at = -math.inf
        self._steps = 0
        """Steps of the whole run, as printed."""

    # What comes

    def see_step(self, step: StepFinished) -> None:
        """Take in a step that the watch reports: the same ones in a log no longer count."""
        self._seen = step.step
        self._may_be_watched = False
        if math.isfinite(step.seconds):
            self._step_seconds.append(step.seconds)

    def read(
        self, text: OutputText, record: Record, first_readings: _FirstReadings
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
        if not self._may_be_watched and not self.waits:
            return [derived_record for derived_record, _ in derived_records]
        self.waits += derived_records
        return ()

    def _is_own(
        self, source: str, reading: Reading, record: Record, first_readings: _FirstReadings
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
        return self._seen > 0 or now >= self.waits[0][0].time + GRACE

    def release(self) -> Sequence[Record]:
        """Return what was held back; if the watch has reported steps, without steps."""
        self._may_be_watched = False
        held_records = self.waits
        self.waits = []
        if not self._seen:
            return [record for record, _ in held_records]
        released_records = []
        for record, named_step in held_records:
            event = _without_step(record.event, self._step_by_watch(named_step))
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
        for reading in readings:
            values = self._values_of(source, reading.values)
            self._steps = reading.steps or self._steps
            if reading.kind is ReadingKind.STEP and numbers:
                self._printed = reading.step or self._printed
                step_before = self._step
                self._step = next(next_numbers)
                if not self._seen and self._step != step_before:
                    yield self._make_step(reading, values, step_seconds), reading.step
            if self._seen:  # the watch measures these itself
                values.pop("step_seconds", 0.0)
                values.pop("data_seconds", 0.0)
            if values:
                step = self._step_of(source, reading)
                named_values = tuple(values.items())
                yield ScriptMetrics(self.rank, step, reading.epoch, named_values), reading.step
        if numbers:
            self._step_at = now
        if numbers and self._printed:
            if not self._first[0]:
                self._first = (self._printed, self._seen)
            self._ahead = min(self._ahead, self._printed - self._seen)

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

    def _step_of(self, source: str, reading: Reading) -> int:
        """Return the step that a reading is of.

        A file may report it much later; one of epochs alone counts them as steps.
        """
        newest_step = self._seen or self._step
        if source:
            return reading.step or newest_step or math.ceil(reading.epoch)
        return self._step_by_watch(reading.step) if self._seen else reading.step or newest_step

    def _step_by_watch(self, printed_number: int) -> int:
        """Map a step number from a log line (0: it has none) to the watch's own count.

        It is the same number as long as lines name about what the watch has come to, and never go
        back; else they count something else, such as batches of which several are a step.
        """
        if printed_number <= 0 or not self._counts_alike:
            return self._seen
        step_seconds = median(self._step_seconds) if self._step_seconds else 0.0
        distance = abs(printed_number - self._seen)
        is_near = distance <= NEAR or (step_seconds > 0 and distance < LAG / step_seconds + 1)
        self._counts_alike = not step_seconds or (is_near and printed_number >= self._named - NEAR)
        self._named = printed_number
        return printed_number if is_near and self._counts_alike else self._seen

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
        all_steps = self._all_steps()
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

    def _all_steps(self) -> int:
        """Return the steps of the whole run: as printed, or by the count of the watch.

        The watch knows of no steps before a checkpoint.
        """
        if not self._seen or not self._steps or not self._printed:
            return self._steps
        num_printed = self._printed - self._first[0]
        num_seen = self._seen - self._first[1]
        steps_per_number = (
            num_seen / num_printed if num_printed > LATE * self._steps and self._first[1] else 1.0
        )
        if 1 / ALIKE < steps_per_number < ALIKE:
            steps_before = self._ahead if self._ahead > LATE * self._steps else 0
            return max(self._seen, self._steps - int(steps_before))
        return max(self._seen, self._seen + round((self._steps - self._printed) * steps_per_number))


def _without_step(event: Event, step: int) -> Event | None:
    """Return a step as the metrics that its log reported, of this step by the watch."""
    match event:
        case StepFinished() if not event.loss_known:
            return None
        case StepFinished():
            return ScriptMetrics(event.rank, step, float(event.epoch), (("loss", event.loss),))
        case ScriptMetrics():
            return replace(event, step=step)
    return event
