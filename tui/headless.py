"""Showing a run without a dashboard: plain lines, JSON lines, or (see `tui.live`) a live table on a terminal.

stdout is data (the ranks' lines or the events, then the table), stderr is narration (what happens, and why it failed).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from remote.lines import UNSEEN, one_line, shown
from remote.plan import notes
from remote.run import RunPhase, RunState
from remote.summary import finite
from remote.waiting import STARTING, Wait, waiting
from training.events import SESSION, Exited, Hello, Reaching, Record, Started, Text, to_object
from training.jsonl import dumps
from tui import outcome
from tui.session_clock import SessionClock

AGAIN = 15.0
"""Seconds until it is said again who is waited for."""
CALM = 3.0
"""Seconds that lie at least between two such lines, so that ranks that come one by one make few of them."""


class Printer(Protocol):
    """Shows a run. `gone` turns true when nobody reads stdout any more; from then on nothing is written to it."""

    gone: bool

    def batch(self, records: list[Record], state: RunState) -> None:
        """Show what has come: expanded records, already applied to the state."""

    def end(self, state: RunState) -> None:
        """Show what became of the run."""


@contextmanager
def printer(state: RunState, json: bool, *, quiet: bool = False) -> Iterator[Printer]:
    """The printer for where stdout leads, which tells what comes after this state. `quiet`: not what ranks have printed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # text of a rank may hold what the terminal's encoding does not
            stream.reconfigure(errors="backslashreplace")
    for note in notes(state.plan):
        _narrate(sys.stderr, note)
    told = state.log_count
    if json:
        yield JsonPrinter(sys.stdout, sys.stderr, told)
    elif sys.stdout.isatty():
        from tui.live import live_printer

        with live_printer(told=told, quiet=quiet) as live:
            yield live
    else:
        yield PlainPrinter(sys.stdout, sys.stderr, told, quiet=quiet)


def _narrate(err: TextIO, text: str) -> None:
    err.write(f"rankboard: {text}\n")


class Narration:
    """Says in words what happens to a run, each thing once; and who is waited for, again and again."""

    def __init__(self, told: int = 0) -> None:
        """`told`: how many lines of the run's log were told before."""
        self._next = told
        self._started = False
        self._reaching: dict[int, str] = {}
        self._waiting = _Waiting()
        self._stage = 0

    def lines(self, records: list[Record], state: RunState) -> Iterator[str]:
        """What these records, already applied, bring that is worth a line; without any, what the time does."""
        for record in records:
            line = one_line(self._line(record, state))
            if line:
                yield line
        fresh = [note for note in state.notes if note.number >= self._next]
        for note in fresh:
            yield f"{note.host}: {note.text}" if note.host else note.text
        self._next = state.log_count
        yield from self._stages(state)
        yield from self._waiting.lines(state)

    def _stages(self, state: RunState) -> Iterator[str]:
        """How far all ranks are on their way to the first step, when the last one comes there."""
        stage = min((STARTING.index(rank.phase) for rank in state.ranks if rank.phase in STARTING), default=0)
        if stage > self._stage and state.phase is RunPhase.STARTING:
            self._stage = stage
            yield f"{STARTING[stage].value} after {state.elapsed:.1f} s"

    def _line(self, record: Record, state: RunState) -> str:
        match record.event:
            case Reaching(on, phase) if self._reaching.get(on) != phase:  # not at each of many tries
                self._reaching[on] = phase
                return f"{state.host_name(on)}: {phase}"
            case Hello(hostname=hostname, python=python, torch=torch, cores=cores):
                versions = f"Python {python}, {f'torch {torch}' if torch else 'no torch'}, {cores:g} cores"
                return f"{state.host_name(record.host)}: {hostname}, {versions}"
            case Started() as begun if not self._started:
                self._started = True
                return (
                    f"training: {begun.world_size} ranks, {begun.steps} steps, {begun.parameters:,} parameters, "
                    f"{begun.train_samples:,} samples, {begun.backend} on {begun.device}"
                )
            case Exited(rank, code, signal) if code != 0:
                return f"{state.host_name(record.host)}: rank {rank} ended: {signal or f'exit code {code}'}"
        return ""


class _Waiting:
    """Says who is waited for when that changes, and every `AGAIN` seconds."""

    def __init__(self) -> None:
        self._clock = SessionClock()
        self._said: tuple[tuple[str, str], ...] = ()
        self._said_at = -AGAIN

    def lines(self, state: RunState) -> Iterator[str]:
        now = self._clock.now(state)
        waits = waiting(state, now)
        what = tuple((wait.who, wait.what) for wait in waits)
        if now >= self._said_at + (AGAIN if what == self._said else CALM):
            self._said, self._said_at = what, now if what else self._said_at
            yield from map(Wait.text, waits)


class PlainPrinter:
    """For a pipe or a file: the ranks' lines, each with its rank, as they come; at the end the table."""

    def __init__(self, out: TextIO, err: TextIO, told: int = 0, *, quiet: bool = False) -> None:
        """`told`: see `Narration`; `quiet`: see `printer`."""
        self.gone = False
        self._out, self._err, self._quiet = out, err, quiet
        self._narration = Narration(told)

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print the text among these records, and what they mean."""
        for record in records:
            if isinstance(record.event, Text) and not self._quiet:
                self._write(prefixed(record.event, state.host_name(record.host)))
        self._tell(records, state)
        self._flush()

    def end(self, state: RunState) -> None:
        """Print the cause of a failure, the table and the verdict."""
        for line in outcome.cause(state):
            self._err.write(line + "\n")
        self._err.flush()
        if outcome.trained(state):
            self._write("".join(line + "\n" for line in outcome.columns(outcome.head(state), outcome.table(state))))
        self._flush()
        _narrate(self._err, outcome.verdict(state))
        self._err.flush()

    def _tell(self, records: list[Record], state: RunState) -> None:
        for line in self._narration.lines(records, state):
            _narrate(self._err, line)
        self._err.flush()

    def _write(self, text: str) -> None:
        if not self.gone:
            try:
                self._out.write(text)
            except OSError:  # a reader that went away, a full disk, a terminal that is gone
                self._leave()

    def _flush(self) -> None:
        if not self.gone:
            try:
                self._out.flush()
            except OSError:  # a reader that went away, a full disk, a terminal that is gone
                self._leave()

    def _leave(self) -> None:
        """Nobody reads any more. What is still in the buffer must go somewhere when the interpreter ends."""
        self.gone = True
        if self._out is sys.stdout:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._out.fileno())
            os.close(nowhere)


class JsonPrinter(PlainPrinter):
    """For programs: one JSON object per event on stdout, a rank's text one per line, and nothing else there.

    Every object has `event`, `time` (by the launcher's clock), `host` and `rank` (null where there is none), then the
    event's own fields. The JSON is strict: a number that is not finite is null.
    """

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print these records."""
        for record in records:
            self._write("".join(_escaped(dumps(finite(item))) + "\n" for item in objects(record, state)))
        self._tell(records, state)
        self._flush()

    def end(self, state: RunState) -> None:
        """Say on stderr why a run failed, and how it ended."""
        for line in outcome.cause(state):
            self._err.write(line + "\n")
        _narrate(self._err, outcome.verdict(state))
        self._err.flush()


def objects(record: Record, state: RunState) -> Iterator[dict[str, Any]]:
    """The JSON-ready objects of an expanded record: one, or for text one per line."""
    fields = to_object(record.event)
    on = fields.pop("on", record.host)
    offset = state.hosts[record.host].offset if 0 <= record.host < len(state.hosts) else 0.0
    rank = fields.pop("rank", SESSION)
    head = {
        "event": fields.pop("event"),
        "time": record.time - offset,
        "host": state.host_name(on) or None,
        "rank": rank if rank >= 0 else None,
    }
    if isinstance(record.event, Text):
        yield from ({**head, "stream": record.event.stream, "line": line} for line in record.event.text.split("\n"))
    else:
        yield head | fields


def _escaped(line: str) -> str:
    """The same JSON without characters that a terminal acts on."""
    return line if line.isascii() and "\x7f" not in line else UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def prefixed(text: Text, host: str) -> str:
    """The lines of a text, each after whose it is."""
    whose = f"[rank {text.rank}] " if text.rank >= 0 else f"[{host}] "
    return "".join(f"{whose}{line}\n" for line in shown(text.text))
