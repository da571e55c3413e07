"""Showing a run to a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any, TextIO

import msgspec

from remote.events import EVENTS, to_object
from remote.plan.plan import Plan
from remote.record import lock, summary
from remote.run.apply import apply_record
from remote.run.findings.alerts import Key, find_alerts
from remote.run.run_state import RunState
from training.wire.codec import wire_name
from training.wire.events import SESSION, Record
from training.wire.host_events import OutputText
from training.wire.rank_events import ScriptMetrics, StepFinished
from training.wire.step_block import StepBlock, StepColumns, columns_of
from tui.kit.output import escape_unseen, json_line
from tui.run.plain_printer import PlainPrinter

JsonObject = dict[str, Any]
RUN = "run"
ALERT = "alert"
SUMMARY = "summary"
STATE_KINDS = frozenset({RUN, ALERT, SUMMARY})
"""What is told of a run as a whole, for which no single record has to be read."""
STEP = StepFinished.wire_name
KINDS = (RUN, *(wire_name(event) for event in EVENTS if event is not StepBlock), ALERT, SUMMARY)
"""What `event` of an object may be. A block of steps is printed as single steps."""


class JsonPrinter(PlainPrinter):
    """Prints one JSON object per event to stdout, and for the text of a rank one per line.

    Every object has `event`, `time` (by the launcher's clock), `host` and `rank` (null where there
    is none), then the event's own fields. The first is `run`, the plan and where the run is
    recorded; the last `summary`, as in the run directory.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        notes_told: int = 0,
        *,
        folder: Path,
        verbose: bool = False,
        kinds: Collection[str] | None = None,
    ) -> None:
        """`notes_told` and `verbose`: see `Narration`; `folder`: where the run is recorded;
        `kinds`: of the objects that are printed, None: all."""
        super().__init__(out, err, notes_told, verbose=verbose)
        self._folder = folder
        self._kinds = frozenset(KINDS if kinds is None else kinds)
        self._has_begun = False
        self._warned: set[tuple[Key, bool]] = set()

    def replay(self, records: Iterable[Record], plan: Plan) -> RunState:
        """Print expanded records of the run from its beginning; return the state after them."""
        state = RunState(plan)

        def applied_lines() -> Iterator[str]:
            for record in records:
                apply_record(state, record)
                yield from self._record_lines(record, state)

        self.write(applied_lines())
        self._print(self._alerts(state), state)
        return state

    def tell_state(self, state: RunState) -> None:
        """Print what is told of a run before and after its records, without these."""
        self.write(self._first_line(state.started, state))
        self._print(self._alerts(state), state)
        self.summarize(state)

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print these records."""
        # The state includes the records already, so an alert may come before those that cause it.
        self._print(self._alerts(state), state)
        self.write(line for record in records for line in self._record_lines(record, state))
        self._tell(self._narration.lines(records, state))

    def end(self, state: RunState) -> None:
        """Print the summary; to stderr, print why a run failed and how it ended."""
        self.summarize(state)
        self._explain(state)
        self._conclude(state)

    def summarize(self, state: RunState) -> None:
        """Print the last object, the summary."""
        if SUMMARY not in self._kinds:
            return
        head_fields = _head(SUMMARY, state.ended or state.now)
        self._print([head_fields | summary.summarize(state)], state)

    def _print(self, items: Iterable[JsonObject], state: RunState) -> None:
        self.write(self._lines(items, state))

    def _record_lines(self, record: Record, state: RunState) -> Iterator[str]:
        is_block = isinstance(record.event, StepBlock)
        kind = STEP if is_block else wire_name(type(record.event))
        if kind not in self._kinds:
            # Who follows a run learns which one it is as soon as anything happens.
            yield from self._first_line(record.time, state)
        elif isinstance(record.event, StepBlock):
            yield from self._first_line(record.time, state)
            yield from step_lines(record, record.event.unpack(), state)
        else:
            yield from self._lines(objects(record, state), state)

    def _lines(self, items: Iterable[JsonObject], state: RunState) -> Iterator[str]:
        for item in items:
            yield from self._first_line(item["time"], state)
            yield json_line(item)

    def _first_line(self, when: float, state: RunState) -> Iterator[str]:
        """Yield the very first line, which describes the run, before any other."""
        if self._has_begun:
            return
        self._has_begun = True
        if RUN not in self._kinds:
            return
        yield json_line(
            _head(RUN, when)
            | {
                "run": state.plan.run,
                "plan": summary.describe_plan(state.plan),
                "folder": str(self._folder),
                "live": lock.launcher(self._folder) is not None,
            }
        )

    def _alerts(self, state: RunState) -> Iterator[JsonObject]:
        """Yield an object for each alert, when it comes and when it is over."""
        if ALERT not in self._kinds:
            return
        for alert in find_alerts(state):
            alert_key = alert.key, bool(alert.over)
            if alert_key not in self._warned:
                self._warned.add(alert_key)
                yield _head(ALERT, alert.over or alert.since) | asdict(alert)


def _head(event: str, when: float) -> JsonObject:
    """Make the fields that every object begins with, for an object of the run itself."""
    return {"event": event, "time": when, "host": None, "rank": None}


_RANK, *_COLUMNS = StepFinished.__match_args__
_StepLine = msgspec.defstruct("_StepLine", ["event", "time", "host", _RANK, *_COLUMNS])
"""The object of a step: what every object begins with, then the other fields of `StepFinished`."""
_encode_steps = msgspec.json.Encoder().encode_lines


def step_lines(record: Record, steps: StepColumns, state: RunState) -> Iterator[str]:
    """Make the lines of the steps of a block, as those of `objects`, in a tenth of the time."""
    recording_host = state.host(record.host)
    clock_offset = recording_host.offset if recording_host else 0.0
    times = [min(time, record.time) - clock_offset for time in steps.times]
    host_name = state.host_name(record.host) or None
    rank = steps.rank if steps.rank >= 0 else None
    *columns, loss_known = columns_of(steps)
    step_objects = map(
        _StepLine,
        repeat(STEP),
        times,
        repeat(host_name),
        repeat(rank),
        *columns,
        map(bool, loss_known),
    )
    yield escape_unseen(_encode_steps(list(step_objects)).decode())


def objects(record: Record, state: RunState) -> Iterator[JsonObject]:
    """Make the JSON-ready objects of an expanded record: one, or for text one per line. A block of
    steps has `step_lines`."""
    event_fields = to_object(record.event)
    host_index = event_fields.pop("on", record.host)
    # Times of all hosts by one clock, the launcher's, so that programs can compare them.
    recording_host = state.host(record.host)
    clock_offset = recording_host.offset if recording_host else 0.0
    rank = event_fields.pop("rank", SESSION)
    head_fields = {
        "event": event_fields.pop("event"),
        "time": record.time - clock_offset,
        "host": state.host_name(host_index) or None,
        "rank": rank if rank >= 0 else None,
    }
    if isinstance(record.event, OutputText):
        # Not `splitlines`, which also breaks lines at carriage returns and form feeds.
        for line in record.event.text.split("\n"):
            yield head_fields | {"stream": record.event.stream, "line": line}
    elif isinstance(record.event, ScriptMetrics):
        step_time = record.event.step_time - clock_offset if record.event.step_time else None
        event_fields |= {"values": dict(record.event.values), "step_time": step_time}
        yield head_fields | event_fields
    else:
        yield head_fields | event_fields
