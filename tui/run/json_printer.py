"""Showing a run to a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from remote.events import to_object
from remote.plan.plan import Plan
from remote.record import summary
from remote.run.apply import apply_record
from remote.run.findings.alerts import Key, find_alerts
from remote.run.run_state import RunState
from remote.sanitise import UNSEEN
from training.wire.events import SESSION, OutputText, Record, ScriptMetrics
from training.wire.jsonl import dumps
from tui.kit.narrate import narrate
from tui.kit.written import written
from tui.run import outcome
from tui.run.plain_printer import PlainPrinter


class JsonPrinter(PlainPrinter):
    """Prints one JSON object per event to stdout, and for the text of a rank one per line.

    Every object has `event`, `time` (by the launcher's clock), `host` and `rank` (null where there
    is none), then the event's own fields. The first is `run`, the plan and the run's `folder`; the
    last `summary`, as in the run directory. The JSON is strict: a number that is not finite is
    null.
    """

    def __init__(
        self, out: TextIO, err: TextIO, told: int = 0, *, folder: Path, verbose: bool = False
    ) -> None:
        """`told` and `verbose`: see `Narration`; `folder`: where the run is recorded."""
        super().__init__(out, err, told, verbose=verbose)
        self._folder = folder
        self._begun = False
        self._warned: set[tuple[Key, bool]] = set()

    def replay(self, records: Iterable[Record], plan: Plan) -> RunState:
        """Print expanded records of the run from its beginning; return the state after them."""
        state = RunState(plan)
        for record in records:
            apply_record(state, record)
            self._show(record, state)
            if self.gone:
                break
        self._warn(state)
        self._flush()
        return state

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print these records."""
        self._warn(state)
        for record in records:
            self._show(record, state)
        self._tell(self._narration.lines(records, state))
        self._flush()

    def end(self, state: RunState) -> None:
        """Print the summary; to stderr, print why a run failed and how it ended."""
        self.summarize(state)
        self._explain(state)
        for line in (*outcome.seen_of_program(state), *written(state), outcome.verdict(state)):
            narrate(line, file=self._err)
        self._err.flush()

    def summarize(self, state: RunState) -> None:
        """Print the last object, the summary."""
        self._begin(state, state.started)
        self._object(_head("summary", state.ended or state.now) | summary.summarize(state))
        self._flush()

    def _show(self, record: Record, state: RunState) -> None:
        for item in objects(record, state):
            self._begin(state, item["time"])
            self._object(item)

    def _warn(self, state: RunState) -> None:
        """Print an object for each alert, when it comes and when it is over."""
        for alert in find_alerts(state):
            if (alert.key, bool(alert.over)) not in self._warned:
                self._warned.add((alert.key, bool(alert.over)))
                self._begin(state, alert.since)
                self._object(_head("alert", alert.over or alert.since) | asdict(alert))

    def _begin(self, state: RunState, when: float) -> None:
        """Print the first object, once."""
        if not self._begun:
            self._begun = True
            names = {
                "run": state.plan.run,
                "plan": summary.describe_plan(state.plan),
                "folder": str(self._folder),
            }
            self._object(_head("run", when) | names)

    def _object(self, item: dict[str, Any]) -> None:
        self._write(_escaped(dumps(summary.to_strict_json(item))) + "\n")


def _head(event: str, when: float) -> dict[str, Any]:
    """Make the fields that every object begins with, for an object of the run itself."""
    return {"event": event, "time": when, "host": None, "rank": None}


def objects(record: Record, state: RunState) -> Iterator[dict[str, Any]]:
    """Make the JSON-ready objects of an expanded record: one, or for text one per line."""
    fields = to_object(record.event)
    host = fields.pop("on", record.host)
    offset = state.hosts[record.host].offset if 0 <= record.host < len(state.hosts) else 0.0
    rank = fields.pop("rank", SESSION)
    head = {
        "event": fields.pop("event"),
        "time": record.time - offset,
        "host": state.host_name(host) or None,
        "rank": rank if rank >= 0 else None,
    }
    if isinstance(record.event, OutputText):
        yield from (
            {**head, "stream": record.event.stream, "line": line}
            for line in record.event.text.split("\n")
        )
    elif isinstance(record.event, ScriptMetrics):
        yield {**head, **fields, "values": dict(record.event.values)}
    else:
        yield head | fields


def _escaped(line: str) -> str:
    """Escape the characters of this JSON that a terminal would act on."""
    return (
        line
        if line.isascii() and "\x7f" not in line
        else UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)
    )
