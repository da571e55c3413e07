"""What happens in a run, in sentences, and what its ranks and hosts print."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from remote.events import HostPhaseChanged
from remote.format import count, ranks_text
from remote.run.findings.start_waits import STARTING, Wait, waiting
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.sanitise import one_line, shown
from training.wire.events import SESSION, Exited, Hello, OutputText, Record, Started
from tui.kit.session_clock import SessionClock
from tui.run import outcome

MOMENT = 1.0
"""Seconds that a line of a host or a rank waits for others with the same text."""
MANY = 1_000
"""The largest number of lines that wait."""
AGAIN = 15.0
"""Seconds until a wait that lasts is printed again, at the least."""
CALM = 3.0
"""Seconds between two such lines, so that ranks that arrive one by one make few of them."""


class GatheredLines:
    """Holds lines of hosts and ranks for a moment, so that several with one text appear once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = 0.0
        self._waiting: dict[tuple[str, int], list[int]] = {}
        self._times: dict[tuple[str, int], int] = {}

    def add(self, text: str, whose: int) -> None:
        """Hold a line of a host or rank, by number; its second such line counts as another."""
        if not self._waiting:
            self._since = self._clock()
        times = self._times[text, whose] = self._times.get((text, whose), 0) + 1
        self._waiting.setdefault((text, times), []).append(whose)

    def due(self, *, at_once: bool = False) -> Iterator[tuple[str, list[int]]]:
        """Release all lines in order, each with its hosts or ranks, when the first has waited long
        enough or `at_once`."""
        full = len(self._waiting) >= MANY
        if self._waiting and (at_once or full or self._clock() >= self._since + MOMENT):
            waiting = self._waiting
            self._waiting = {}
            self._times.clear()
            for (text, _), whose in waiting.items():
                yield text, sorted(whose)


class Narration:
    """Describes what happens in a run, each event once, and repeats what the run waits for.

    `verbose`: with each step of the start.
    """

    def __init__(self, told: int = 0, *, verbose: bool = False) -> None:
        """`told`: the number of lines of the run's log that were printed before."""
        self._next = told
        self._verbose = verbose
        self._started = False
        self._reaching: dict[int, str] = {}
        self._waiting = _Waiting()
        self._stage = 0
        self._of_hosts, self._ends = GatheredLines(), GatheredLines()

    def lines(self, records: list[Record], state: RunState) -> Iterator[str]:
        """Describe these records, which were applied to the state, and what the run waits for."""
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
                if state.has_begun or not outcome.repeats_cause(note.text, state.cause):
                    yield note.text
        self._next = state.log.count
        yield from self._gathered(state)
        if self._verbose:
            yield from self._stages(state)
        yield from self._waiting.lines(state)

    def rest(self, state: RunState) -> Iterator[str]:
        """Release the lines that are still held at the end of the run."""
        yield from self._gathered(state, at_once=True)

    def _gathered(self, state: RunState, *, at_once: bool = False) -> Iterator[str]:
        for text, hosts in self._of_hosts.due(at_once=at_once):
            if not outcome.repeats_cause(text, state.cause):
                yield f"{_names(hosts, state)}: {text}"
        for text, ranks in self._ends.due(at_once=at_once):
            if state.has_begun or not state.refused:
                rank = state.rank(ranks[0]) if len(ranks) == 1 else None
                host = f"{state.host_name(rank.host)}: " if rank else ""
                yield f"{host}{ranks_text(ranks)} {text}"

    def _stages(self, state: RunState) -> Iterator[str]:
        """Name a stage of the start when the last rank reaches it."""
        stage = min(
            (STARTING.index(rank.phase) for rank in state.ranks if rank.phase in STARTING),
            default=0,
        )
        if stage > self._stage and state.phase is RunPhase.STARTING:
            self._stage = stage
            yield f"{STARTING[stage].value} after {state.elapsed:.1f} s"

    def _line(self, record: Record, state: RunState) -> str:
        match record.event:
            case HostPhaseChanged(on, phase) if (
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
                if 0 <= rank < state.plan.world_size:
                    self._ends.add(one_line(f"ended: {signal or f'exit code {code}'}"), rank)
        return ""


class RankLines:
    """The output of ranks and hosts, each line with its source.

    Before the first step all ranks often write the same to stderr, as when a package is missing:
    such a line appears once.
    """

    def __init__(self) -> None:
        self._of_ranks, self._of_hosts = GatheredLines(), GatheredLines()

    def chunks(self, records: list[Record], state: RunState) -> Iterator[str]:
        """Make whole lines, each with its newline, of the text among these records."""
        for record in records:
            text = record.event
            if not isinstance(text, OutputText) or text.path:
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
                yield prefix_lines(text, state.host_name(record.host))
        yield from self._gathered(state, at_once=state.phase is RunPhase.TRAINING)

    def rest(self, state: RunState) -> Iterator[str]:
        """Release the lines that are still held at the end of the run."""
        yield from self._gathered(state, at_once=True)

    def _gathered(self, state: RunState, *, at_once: bool) -> Iterator[str]:
        for line, hosts in self._of_hosts.due(at_once=at_once):
            if not outcome.repeats_cause(line, state.cause):
                yield f"[{_names(hosts, state)}] {line}\n"
        for line, ranks in self._of_ranks.due(at_once=at_once):
            if not outcome.repeats_cause(line, state.cause):
                yield f"[{ranks_text(ranks)}] {line}\n"


def _number(host: str, state: RunState) -> int:
    return next((one.index for one in state.hosts if one.name == host), SESSION)


def _names(hosts: Sequence[int], state: RunState) -> str:
    """Name hosts, given by number: node0; node0 and node2; node0 to node3."""
    names = [state.host_name(host) for host in hosts]
    if len(hosts) > 2 and hosts[-1] - hosts[0] == len(hosts) - 1:
        return f"{names[0]} to {names[-1]}"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


class _Waiting:
    """Names what the run waits for, when that changes and when it has lasted twice as long as when
    it was named last: no line comes twice."""

    def __init__(self) -> None:
        self._clock = SessionClock()
        self._attempt = 0
        self._said: dict[tuple[str, str], float] = {}
        """Who was waited for and what was said of them, and the seconds that it had lasted."""
        self._said_at = -CALM

    def lines(self, state: RunState) -> Iterator[str]:
        now = self._clock.now(state)
        if state.attempt != self._attempt:
            self._attempt = state.attempt
            self._said.clear()
        if now < self._said_at + CALM:
            return
        for wait in waiting(state, now):
            if self._is_news(wait):
                self._said[wait.subject, wait.progress] = wait.seconds
                self._said_at = now
                yield wait.text()

    def _is_news(self, wait: Wait) -> bool:
        said = self._said.get((wait.subject, wait.progress))
        return said is None or wait.seconds >= max(2 * said, said + AGAIN)


def prefix_lines(text: OutputText, host: str) -> str:
    """Make the lines of a text, each after its rank or host."""
    whose = f"[rank {text.rank}] " if text.rank >= 0 else f"[{host}] "
    return "".join(f"{whose}{line}\n" for line in shown(text.text))
