"""Showing a run without a dashboard: plain lines, JSON lines, or (see `tui.text.live`) a live table
on a terminal.

stdout is data (the ranks' lines or the events, then the table), stderr is narration (what happens,
and why it failed).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

from remote.format import count
from remote.plan.dry_run import notes
from remote.plan.plan import Plan
from remote.record import summary
from remote.run.cause import ranks_text
from remote.run.state import RunPhase, RunState
from remote.run.waiting import STARTING, Wait, waiting
from remote.sanitise import UNSEEN, one_line, shown
from training.wire.events import SESSION, Exited, Hello, Reaching, Record, Started, Text, to_object
from training.wire.jsonl import dumps
from tui.session_clock import SessionClock
from tui.text import outcome

MOMENT = 1.0
"""Seconds that what a host or a rank says waits for others that say the same."""
MANY = 1_000
"""Such sentences that wait at the most."""
AGAIN = 15.0
"""Seconds until it is said again who is waited for."""
CALM = 3.0
"""Seconds that lie at least between two such lines, so that ranks that come one by one make few of
them."""


class Printer(Protocol):
    """Shows a run. `gone` turns true when nobody reads stdout any more; from then on nothing is
    written to it."""

    gone: bool

    def batch(self, records: list[Record], state: RunState) -> None:
        """Show what has come: expanded records, already applied to the state."""

    def end(self, state: RunState) -> None:
        """Show what became of the run."""


@contextmanager
def printer(
    state: RunState,
    json: bool,
    folder: Path,
    *,
    before: Iterable[Record] = (),
    quiet: bool = False,
    verbose: bool = False,
) -> Iterator[Printer]:
    """The printer for where stdout leads, which tells what comes after this state.

    `folder` is the run's. `before`: expanded records that the state has already; as JSON they come
    first. `quiet`: not what ranks have printed. `verbose`: see `Narration`.
    """
    if not state.started:  # else one comes back to it
        _narrate(sys.stderr, outcome.opening(state))
    for note in notes(state.plan):
        _narrate(sys.stderr, note)
    told = state.log.count
    if json:
        to_program = JsonPrinter(sys.stdout, sys.stderr, told, folder=folder, verbose=verbose)
        to_program.replay(before, state.plan)
        yield to_program
    elif sys.stdout.isatty():
        from tui.text.live import live_printer

        with live_printer(told=told, quiet=quiet, verbose=verbose) as live:
            yield live
    else:
        yield PlainPrinter(sys.stdout, sys.stderr, told, quiet=quiet, verbose=verbose)


def _narrate(err: TextIO, text: str) -> None:
    err.write(f"rankboard: {text}\n")


class Gathered:
    """Sentences of hosts and ranks that wait a moment for others that say the same, so that each is
    told once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = 0.0
        self._waiting: dict[tuple[str, int], list[int]] = {}
        self._times: dict[tuple[str, int], int] = {}

    def add(self, text: str, whose: int) -> None:
        """Keep what one of them, by number, says; the same again is another sentence."""
        if not self._waiting:
            self._since = self._clock()
        times = self._times[text, whose] = self._times.get((text, whose), 0) + 1
        self._waiting.setdefault((text, times), []).append(whose)

    def due(self, *, at_once: bool = False) -> Iterator[tuple[str, list[int]]]:
        """Give up, once the first has waited long enough or `at_once`, all of them in order, and
        who has said each."""
        full = len(self._waiting) >= MANY
        if self._waiting and (at_once or full or self._clock() >= self._since + MOMENT):
            waiting, self._waiting = self._waiting, {}
            self._times.clear()
            for (text, _), whose in waiting.items():
                yield text, sorted(whose)


class Narration:
    """Says in words what happens to a run, each thing once; and who is waited for, again and again.

    `verbose`: also each step of reaching the hosts and starting the ranks.
    """

    def __init__(self, told: int = 0, *, verbose: bool = False) -> None:
        """`told`: how many lines of the run's log were told before."""
        self._next = told
        self._verbose = verbose
        self._started = False
        self._reaching: dict[int, str] = {}
        self._waiting = _Waiting()
        self._stage = 0
        self._of_hosts, self._ends = Gathered(), Gathered()

    def lines(self, records: list[Record], state: RunState) -> Iterator[str]:
        """What these records, already applied, bring that is worth a line; without any, what the
        time does."""
        for record in records:
            line = one_line(self._line(record, state))
            if line:
                yield line
        fresh = [note for note in state.log.notes if note.number >= self._next]
        for note in fresh:
            if note.host:
                self._of_hosts.add(note.text, _number(note.host, state))
            else:
                yield from self._gathered(state, at_once=True)  # which came before
                if state.has_begun or not outcome.repeats(note.text, state.cause):
                    yield note.text
        self._next = state.log.count
        yield from self._gathered(state)
        if self._verbose:
            yield from self._stages(state)
        yield from self._waiting.lines(state)

    def rest(self, state: RunState) -> Iterator[str]:
        """What still waits for others at the end of the run."""
        yield from self._gathered(state, at_once=True)

    def _gathered(self, state: RunState, *, at_once: bool = False) -> Iterator[str]:
        for text, hosts in self._of_hosts.due(at_once=at_once):
            if not outcome.repeats(text, state.cause):
                yield f"{_names(hosts, state)}: {text}"
        for text, ranks in self._ends.due(at_once=at_once):
            if state.has_begun or not state.refused:
                host = f"{state.host_name(state.ranks[ranks[0]].host)}: " if len(ranks) == 1 else ""
                yield f"{host}{ranks_text(ranks)} {text}"

    def _stages(self, state: RunState) -> Iterator[str]:
        """How far all ranks are on their way to the first step, when the last one comes there."""
        stage = min(
            (STARTING.index(rank.phase) for rank in state.ranks if rank.phase in STARTING),
            default=0,
        )
        if stage > self._stage and state.phase is RunPhase.STARTING:
            self._stage = stage
            yield f"{STARTING[stage].value} after {state.elapsed:.1f} s"

    def _line(self, record: Record, state: RunState) -> str:
        match record.event:
            case Reaching(on, phase) if (
                self._verbose and self._reaching.get(on) != phase
            ):  # not at each of many tries
                self._reaching[on] = phase
                return f"{state.host_name(on)}: {phase}"
            case Hello(hostname=hostname, python=python, torch=torch, cores=cores) if self._verbose:
                found = f"torch {torch}" if torch else "no torch"
                facts = f"{hostname}, Python {python}, {found}, {count(cores, 'core')}"
                return f"{state.host_name(record.host)}: {facts}"
            case Started() as begun if not self._started:
                self._started = True
                return (
                    f"training: {count(begun.world_size, 'rank')}, "
                    f"{count(begun.steps, 'step')}, "
                    f"{count(begun.parameters, 'parameter')}, "
                    f"{count(begun.train_samples, 'sample')}, {begun.backend} on {begun.device}"
                )
            case Exited(rank, code, signal, stopped) if code != 0 and (
                self._verbose or not stopped
            ):
                if 0 <= rank < len(state.ranks):
                    self._ends.add(one_line(f"ended: {signal or f'exit code {code}'}"), rank)
        return ""


class RankLines:
    """What ranks and hosts print, each line after whose it is. What several ranks, or hosts, write
    to stderr before the first step they often write all, as when a package is missing: that is told
    once."""

    def __init__(self) -> None:
        self._of_ranks, self._of_hosts = Gathered(), Gathered()

    def chunks(self, records: list[Record], state: RunState) -> Iterator[str]:
        """Whole lines, each with its newline, of the text among these records, already applied."""
        for record in records:
            text = record.event
            if not isinstance(text, Text):
                continue
            if text.stream == "stderr" and state.phase is RunPhase.STARTING:
                for line in shown(text.text):
                    if text.rank >= 0:
                        self._of_ranks.add(line, text.rank)
                    else:
                        self._of_hosts.add(line, record.host)
            else:
                if text.stream == "stderr":
                    yield from self._gathered(state, at_once=True)  # which came before
                yield prefixed(text, state.host_name(record.host))
        yield from self._gathered(state, at_once=state.phase is RunPhase.TRAINING)

    def rest(self, state: RunState) -> Iterator[str]:
        """What still waits for others at the end of the run."""
        yield from self._gathered(state, at_once=True)

    def _gathered(self, state: RunState, *, at_once: bool) -> Iterator[str]:
        for line, hosts in self._of_hosts.due(at_once=at_once):
            if not outcome.repeats(line, state.cause):
                yield f"[{_names(hosts, state)}] {line}\n"
        for line, ranks in self._of_ranks.due(at_once=at_once):
            if not outcome.repeats(line, state.cause):
                yield f"[{ranks_text(ranks)}] {line}\n"


def _number(host: str, state: RunState) -> int:
    return next((one.index for one in state.hosts if one.name == host), SESSION)


def _names(hosts: Sequence[int], state: RunState) -> str:
    """Hosts, by number, in words: node0; node0 and node2; node0 to node3."""
    names = [state.host_name(host) for host in hosts]
    if len(hosts) > 2 and hosts[-1] - hosts[0] == len(hosts) - 1:
        return f"{names[0]} to {names[-1]}"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


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
    """For a pipe or a file: the ranks' lines, each with its rank, as they come; at the end the
    table."""

    def __init__(
        self, out: TextIO, err: TextIO, told: int = 0, *, quiet: bool = False, verbose: bool = False
    ) -> None:
        """`told` and `verbose`: see `Narration`; `quiet`: see `printer`."""
        self.gone = False
        self._out, self._err, self._quiet = out, err, quiet
        self._narration = Narration(told, verbose=verbose)
        self._ranks = RankLines()

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print the text among these records, and what they mean."""
        if not self._quiet:
            self._write_all(self._ranks.chunks(records, state))
        self._tell(records, state)
        self._flush()

    def end(self, state: RunState) -> None:
        """Print the cause of a failure, the table of a run that is over, and the verdict."""
        self._write_all(self._ranks.rest(state))
        self._explain(state)
        if outcome.has_results(state):
            table = outcome.columns(outcome.head(state), outcome.table(state))
            self._write("".join(line + "\n" for line in (*table, *outcome.captions(state))))
        self._flush()
        _narrate(self._err, outcome.verdict(state))
        self._err.flush()

    def _explain(self, state: RunState) -> None:
        """Tell what is left to tell, and why a run failed."""
        for line in self._narration.rest(state):
            _narrate(self._err, line)
        for line in outcome.cause(state):
            self._err.write(line + "\n")
        self._err.flush()

    def _tell(self, records: list[Record], state: RunState) -> None:
        for line in self._narration.lines(records, state):
            _narrate(self._err, line)
        self._err.flush()

    def _write_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._write(text)

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
        """Nobody reads any more. What is still in the buffer must go somewhere when the interpreter
        ends."""
        self.gone = True
        if self._out is sys.stdout:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._out.fileno())
            os.close(nowhere)


class JsonPrinter(PlainPrinter):
    """For programs: one JSON object per event on stdout, a rank's text one per line, and nothing
    else there.

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

    def replay(self, records: Iterable[Record], plan: Plan) -> RunState:
        """Print expanded records of the run from its beginning; returns the state that they come
        to."""
        state = RunState(plan)
        for record in records:
            state.apply(record)
            self._show(record, state)
            if self.gone:
                break
        self._flush()
        return state

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print these records."""
        for record in records:
            self._show(record, state)
        self._tell(records, state)
        self._flush()

    def end(self, state: RunState) -> None:
        """Print the summary; say on stderr why a run failed, and how it ended."""
        self.summarize(state)
        self._explain(state)
        _narrate(self._err, outcome.verdict(state))
        self._err.flush()

    def summarize(self, state: RunState) -> None:
        """Print the last object: what has become of the run."""
        self._begin(state, state.started)
        self._object(_head("summary", state.ended or state.now) | summary.of(state))
        self._flush()

    def _show(self, record: Record, state: RunState) -> None:
        for item in objects(record, state):
            self._begin(state, item["time"])
            self._object(item)

    def _begin(self, state: RunState, when: float) -> None:
        """Print the first object, once."""
        if not self._begun:
            self._begun = True
            names = {
                "run": state.plan.run,
                "plan": summary.plan(state.plan),
                "folder": str(self._folder),
            }
            self._object(_head("run", when) | names)

    def _object(self, item: dict[str, Any]) -> None:
        self._write(_escaped(dumps(summary.finite(item))) + "\n")


def _head(event: str, when: float) -> dict[str, Any]:
    """What every object begins with; these two are no host's."""
    return {"event": event, "time": when, "host": None, "rank": None}


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
        yield from (
            {**head, "stream": record.event.stream, "line": line}
            for line in record.event.text.split("\n")
        )
    else:
        yield head | fields


def _escaped(line: str) -> str:
    """The same JSON without characters that a terminal acts on."""
    return (
        line
        if line.isascii() and "\x7f" not in line
        else UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)
    )


def prefixed(text: Text, host: str) -> str:
    """The lines of a text, each after whose it is."""
    whose = f"[rank {text.rank}] " if text.rank >= 0 else f"[{host}] "
    return "".join(f"{whose}{line}\n" for line in shown(text.text))
