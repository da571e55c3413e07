"""What a user's own program prints, or writes to files that are followed, as the steps and metrics
that it tells of.

It is read on the operator's side, out of recorded text: whoever reads a record from its beginning
on comes to the same.
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
from remote.run.series.step_times import NAN
from remote.sanitise import shown
from training.wire.events import Event, Exited, OutputText, Record, ScriptMetrics, StepFinished

Expand = Callable[[Record], Sequence[Record]]
_Firsts = dict[tuple[int, str], tuple[int, str]]
"""Of each attempt and file, the host that told of it first, and what."""
GRACE = 1.0
"""Seconds that the first step in a log waits for a word of the watch: it may be the same step, and
comes by another pipe."""
COUNTED = 1.0
"""Seconds between two counts of the lines that were not read. Those of a log file have one time."""
MOST_FILES = 100
"""Files of a rank that are read."""
MOST_NAMES = 10_000
"""Values of which it is known whether output or a file told them first."""
STEADY = 0.02
"""The share by which the steps of the run, as told by a log, change until that is told again."""
LATE = 0.05
"""The share of a run by which a log may be ahead of the watch, and not begin at a checkpoint."""
LAG = 0.2
"""Seconds by which a line may come before or after the report of the step that it names: the watch
tells of quick steps together, and lines come by another pipe."""
NEAR = 2
"""Slower steps by which it may: of a GPU, the watch tells of a step later."""
PACE = 20
"""Steps that tell how long one takes."""
ALIKE = 1.5
"""Up to here, so many steps by the watch for one by the log, or the other way round, are still one
for one."""


def expander(plan: Plan) -> Expand:
    """What takes apart the records of a run, given in order from the first one on (see
    `training.wire.events.expand`). In a run of a user's own program, text is followed by the steps
    and metrics that are read out of it."""
    if not isinstance(plan.work, Script):
        return expand
    return Expander(plan.world_size, watch=plan.work.watch, rules=plan.work.rules)


class Expander:
    """See `expander`, of a run with so many ranks. `watch`: they may tell their steps themselves.
    `rules` come first where their output is read. It keeps what has been read so far, and may be
    pickled."""

    def __init__(self, ranks: int, *, watch: bool, rules: tuple[Rule, ...] = ()) -> None:
        self._ranks = ranks
        self._watch = watch
        self._rules = rules
        self._of: dict[tuple[int, int], _Output] = {}
        self._shared: _Firsts = {}
        self._waiting: set[tuple[int, int]] = set()

    def __call__(self, record: Record) -> Sequence[Record]:
        """The records that a record stands for."""
        found = expand(record)
        kind = type(record.event)
        if kind is not OutputText and kind is not Exited:
            return (*self._due(record), *found) if self._waiting else found
        made: list[Record] = list(self._due(record)) if self._waiting else []
        for one in found:
            made.append(one)
            made += self._derived(one)
        return [*made, *self._released(record)]

    def _derived(self, record: Record) -> Sequence[Record]:
        event = record.event
        rank = getattr(event, "rank", -1)
        if not 0 <= rank < self._ranks:
            return ()
        key = record.host, rank
        output = self._of.get(key)
        if output is None or record.attempt > output.attempt:
            output = _Output(rank, record.attempt, self._rules, may_be_watched=self._watch)
            self._of[key] = output
        if record.attempt < output.attempt:
            return ()
        match event:
            case OutputText():
                derived = output.read(event, record, self._shared)
            case StepFinished():
                output.see(event)
                return ()
            case Exited():
                derived = output.end(record)
            case _:
                return ()
        (self._waiting.add if output.waits else self._waiting.discard)(key)
        return derived

    def _released(self, record: Record) -> Iterator[Record]:
        """What has waited for the steps that a record of the watch tells of, all of them."""
        key = record.host, getattr(record.event, "rank", -1)
        if key in self._waiting and self._of[key].is_seen:
            self._waiting.discard(key)
            yield from self._of[key].release()

    def _due(self, record: Record) -> Iterator[Record]:
        """The steps of the host that have waited long enough."""
        for key in sorted(self._waiting):
            if key[0] == record.host and self._of[key].is_due(record.time):
                self._waiting.discard(key)
                yield from self._of[key].release()


class _Output:
    """What one rank prints in one attempt, and the files that are followed for it. `waits` is what
    its first lines told that was not passed on yet.

    Its output is a source, and so is each file (see `source_of`). One source tells the steps, the
    first that does, and one each value: what others tell of the same is left out.
    """

    def __init__(
        self, rank: int, attempt: int, rules: tuple[Rule, ...], *, may_be_watched: bool
    ) -> None:
        self.rank = rank
        self.attempt = attempt
        self._rules = rules
        self.waits: list[tuple[Record, int]] = []  # each with the step that it names, or 0
        self._may_be_watched = may_be_watched
        self._logs: dict[str, FileReader] = {}
        self._own: dict[str, bool] = {}  # whether the source is no other host's
        self._of_steps: str | None = None  # the source that tells steps
        self._of_values: dict[str, str] = {}
        self._seen = 0  # the newest step that the watch told
        self._pace: deque[float] = deque(maxlen=PACE)  # seconds of its newest steps
        self._step, self._at = 0, NAN  # the newest step that a log told, and when
        self._first = (0, 0)  # a step by the number in the log, and by the watch at that time
        self._printed = 0  # the newest step by the number in the log
        self._counts_alike = True  # lines and the watch, as far as is known
        self._named = 0  # the last step that a line named
        self._ahead = math.inf  # by how many it is ahead of the watch, at the least
        self._parsed = Parsed(rank, "")
        self._counted_at = -math.inf
        self._steps = 0

    # What comes

    @property
    def is_seen(self) -> bool:
        """Whether the watch has told of a step."""
        return self._seen > 0

    def see(self, step: StepFinished) -> None:
        """The watch tells of a step: the same ones in a log are none beside it."""
        self._seen = step.step
        self._may_be_watched = False
        if math.isfinite(step.seconds):
            self._pace.append(step.seconds)

    def read(self, text: OutputText, record: Record, shared: _Firsts) -> Sequence[Record]:
        """Text was printed, or written to a file that is followed. A file of a folder that hosts
        share is read once: each of them passes it on."""
        source = source_of(text.path) if text.path else ""
        log = self._logs.get(source)
        if log is None:
            if source and len(self._logs) >= MOST_FILES:
                return ()
            log = self._logs[source] = reader_of(source, self._rules)
        readings = log.read(text.text)
        if source and readings and not self._is_own(source, readings[0], record.host, shared):
            return ()
        told = self._told(source, readings, record.time)
        derived = [(_with(record, event), number) for event, number in told]
        derived += [(one, 0) for one in self._count(record)]
        if not self._may_be_watched and not self.waits:
            return [one for one, _ in derived]
        self.waits += derived
        return ()

    def _is_own(self, source: str, reading: Reading, host: int, shared: _Firsts) -> bool:
        """Whether no other host has told the first reading of this source before."""
        if source not in self._own:
            values = list(reading.values.items())
            mark = repr((reading.step, reading.epoch, values[0]))
            of, first = shared.setdefault((self.attempt, source), (host, mark))
            self._own[source] = of == host or first != mark
        return self._own[source]

    def end(self, record: Record) -> Sequence[Record]:
        """Nothing more comes, but for the rest of what it printed."""
        self._counted_at = -math.inf
        return [*self.release(), *self._count(record)]

    def is_due(self, now: float) -> bool:
        """Whether the watch has had the time to tell of the first steps."""
        return bool(self.waits) and now >= self.waits[0][0].time + GRACE

    def release(self) -> Sequence[Record]:
        """What was held back; of what the watch has told, no steps."""
        self._may_be_watched = False
        waits = self.waits
        self.waits = []
        if not self._seen:
            return [one for one, _ in waits]
        events = [(one, _without_step(one.event, self._at_watch(number))) for one, number in waits]
        return [_with(one, event) for one, event in events if event]

    # What it tells

    def _told(
        self, source: str, readings: Sequence[Reading], now: float
    ) -> Iterator[tuple[Event, int]]:
        """The steps and metrics of readings that came together, each with the step that it
        names."""
        numbers = self._numbers(readings) if self._tells_steps(source, readings) else []
        taken = numbers[-1] - self._step if numbers else 0
        each = (now - self._at) / taken if taken > 0 and now > self._at else NAN
        upcoming = iter(numbers)
        for reading in readings:
            values = self._values(source, reading.values)
            self._steps = reading.steps or self._steps
            if reading.kind is ReadingKind.STEP and numbers:
                self._printed = reading.step or self._printed
                before = self._step
                self._step = next(upcoming)
                if not self._seen and self._step != before:
                    yield self._as_step(reading, values, each), reading.step
            if self._seen:
                values.pop("step_seconds", 0.0)
                values.pop("data_seconds", 0.0)
            if values:
                place = self._place(source, reading)
                event = ScriptMetrics(self.rank, place, reading.epoch, tuple(values.items()))
                yield event, reading.step
        if numbers:
            self._at = now
        if numbers and self._printed:
            self._first = self._first if self._first[0] else (self._printed, self._seen)
            self._ahead = min(self._ahead, self._printed - self._seen)

    def _tells_steps(self, source: str, readings: Sequence[Reading]) -> bool:
        if self._of_steps is None and any(one.kind is ReadingKind.STEP for one in readings):
            self._of_steps = source
        return self._of_steps == source

    def _values(self, source: str, values: dict[str, float]) -> dict[str, float]:
        """The values that are this source's to tell."""
        told = self._of_values
        for name in values:
            if len(told) < MOST_NAMES:
                told.setdefault(name, source)
        if len(self._logs) == 1:
            return dict(values)
        return {name: value for name, value in values.items() if told.get(name, source) == source}

    def _place(self, source: str, reading: Reading) -> int:
        """The step that a reading is of. A file may tell of it much later; one of epochs alone
        counts them as steps."""
        now = self._seen or self._step
        if not source:
            return self._at_watch(reading.step) if self._seen else reading.step or now
        return reading.step or now or math.ceil(reading.epoch)

    def _at_watch(self, number: int) -> int:
        """The step by the watch that a line is of which names this one, or none (0). It is that one
        as long as lines name about what the watch has come to, and never go back; else they count
        something else, such as batches of which several are a step."""
        if number <= 0 or not self._counts_alike:
            return self._seen
        pace = median(self._pace) if self._pace else 0.0
        distance = abs(number - self._seen)
        is_near = distance <= NEAR or (pace > 0 and distance < LAG / pace + 1)
        self._counts_alike = not pace or (is_near and number >= self._named - NEAR)
        self._named = number
        return number if is_near and self._counts_alike else self._seen

    def _numbers(self, readings: Sequence[Reading]) -> list[int]:
        """The steps that readings tell of. Where a log does not number them, they are counted; a
        frame of a progress bar may be one step behind a line."""
        numbers = list[int]()
        newest = self._step
        for reading in readings:
            if reading.kind is ReadingKind.STEP:
                is_behind = reading.step == newest - 1 > 0
                newest = newest if is_behind else reading.step or newest + 1
                numbers.append(newest)
        return numbers

    def _as_step(self, reading: Reading, values: dict[str, float], each: float) -> StepFinished:
        seconds = values.pop("step_seconds", each)
        is_known = "loss" in values
        return StepFinished(
            self.rank,
            max(0, math.ceil(reading.epoch)) if math.isfinite(reading.epoch) else 0,
            self._step,
            values.pop("loss", NAN),
            seconds,
            data=values.pop("data_seconds", 0.0),
            loss_known=is_known,
        )

    def _count(self, record: Record) -> Sequence[Record]:
        """How the output is read, where that is news. What is not read is counted now and then."""
        printed = self._logs.get("")
        name, unread = (printed.format, printed.unread) if printed else ("", 0)
        files = self._files()
        steps = self._all_steps()
        told = self._parsed.steps
        is_other = (name, files) != (self._parsed.format, self._parsed.files)
        is_other = is_other or abs(steps - told) > STEADY * told
        is_due = not self._counted_at < record.time < self._counted_at + COUNTED
        if not is_other and not (is_due and unread != self._parsed.unread):
            return ()
        self._counted_at = record.time
        self._parsed = Parsed(self.rank, name, unread, steps, files)
        return [_with(record, self._parsed)]

    def _files(self) -> tuple[str, ...]:
        """The files that are read, fit to be shown."""
        return tuple(" ".join(shown(source)) for source, is_own in self._own.items() if is_own)

    def _all_steps(self) -> int:
        """Steps of the whole run: as printed, or by the count of the watch, which knows of none
        before a checkpoint."""
        if not self._seen or not self._steps or not self._printed:
            return self._steps
        printed = self._printed - self._first[0]
        seen = self._seen - self._first[1]
        rate = seen / printed if printed > LATE * self._steps and self._first[1] else 1.0
        if 1 / ALIKE < rate < ALIKE:
            before = self._ahead if self._ahead > LATE * self._steps else 0
            return max(self._seen, self._steps - int(before))
        return max(self._seen, self._seen + round((self._steps - self._printed) * rate))


def _with(record: Record, event: Event) -> Record:
    return Record(record.host, record.attempt, record.seq, record.time, event)


def _without_step(event: Event, step: int) -> Event | None:
    """A step as the metrics that its log told, of this step by the watch."""
    match event:
        case StepFinished() if not event.loss_known:
            return None
        case StepFinished():
            return ScriptMetrics(event.rank, step, float(event.epoch), (("loss", event.loss),))
        case ScriptMetrics():
            return replace(event, step=step)
    return event
