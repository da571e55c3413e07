"""What happens in a run, in sentences, and what its ranks and hosts print."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from remote.events import HostPhaseChanged
from remote.format import count, listed, ranks_text
from remote.run.findings import script_visibility as seen
from remote.run.findings.find_advice import advise_stall
from remote.run.findings.start_waits import waiting
from remote.run.run_state import RunState
from remote.run.state.advice import Remedy
from remote.run.state.phases import START_PHASES, RunPhase
from remote.sanitise import one_line, shown
from training.wire.events import SESSION, Record
from training.wire.host_events import Exited, Hello, OutputText
from training.wire.rank_events import Started
from tui.kit.session_clock import SessionClock
from tui.run import outcome
from tui.run.components.advice_text import describe_advice

HOLD_SECONDS = 1.0
"""Seconds that a line of a host or a rank waits for others with the same text."""
MAX_HELD = 1_000
"""The largest number of lines that wait."""
REPEAT_SECONDS = 15.0
"""Seconds until a wait that lasts is printed again, at the least."""
CALM_SECONDS = 3.0
"""Seconds between two such lines, so that ranks that arrive one by one make few of them."""


class GatheredLines:
    """Holds lines of hosts and ranks for a moment, so that several with one text appear once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = 0.0
        self._held: dict[tuple[str, bool, int], list[int]] = {}
        self._repeats = Counter[tuple[str, bool, int]]()

    def add(self, text: str, number: int, *, of_host: bool = False) -> None:
        """Hold a line of a rank, or of a host. Its second line with this text counts as another."""
        if not self._held:
            self._since = self._clock()
        self._repeats[text, of_host, number] += 1
        repetition = self._repeats[text, of_host, number]
        self._held.setdefault((text, of_host, repetition), []).append(number)

    def due(self, *, at_once: bool = False) -> Iterator[tuple[str, bool, list[int]]]:
        """Release all lines in order, each with its hosts (if True) or ranks, when the first has
        waited long enough or `at_once`."""
        # A rank that floods stderr before its first step must not fill the memory.
        is_full = len(self._held) >= MAX_HELD
        if at_once or is_full or self._clock() >= self._since + HOLD_SECONDS:
            held_lines = self._held
            self._held = {}
            self._repeats.clear()
            for (text, of_host, _), numbers in held_lines.items():
                yield text, of_host, sorted(numbers)


class Narration:
    """Describes what happens in a run, each event once, and repeats what the run waits for.

    `verbose`: with each step of the start.
    """

    def __init__(self, notes_told: int = 0, *, verbose: bool = False) -> None:
        """`notes_told`: the number of lines of the run's log that were printed before."""
        self._next = notes_told
        self._verbose = verbose
        self._started = False
        self._reaching: dict[int, str] = {}
        self._waiting = _Waiting()
        self._clock = SessionClock()
        self._told_silence = False
        self._told_remedy = ""
        self._stage = 0
        self._gathered = GatheredLines()

    def lines(self, records: list[Record], state: RunState) -> Iterator[str]:
        """Describe these records, which were applied to the state, and what the run waits for."""
        for record in records:
            line = one_line(self._describe_event(record, state))
            if line:
                yield line
        fresh_notes = [note for note in state.log.notes if note.number >= self._next]
        for note in fresh_notes:
            if note.host:
                self._gathered.add(note.text, _host_number(note.host, state), of_host=True)
                continue
            # Held lines came before this one, and would else be read as its consequence.
            yield from self.rest(state)
            # The cause is told at the end.
            if state.cause and note.text == state.cause.culprit_text:
                continue
            if state.has_begun or not outcome.repeats_cause(note.text, state.cause):
                yield note.text
        self._next = state.log.count
        yield from self._remedy_lines(state)
        yield from self._due_lines(state)
        if self._verbose:
            yield from self._stage_lines(state)
        yield from self._waiting.lines(state)
        yield from self._silence_lines(state)

    def rest(self, state: RunState) -> Iterator[str]:
        """Release the lines that are still held at the end of the run."""
        yield from self._due_lines(state, at_once=True)

    def _due_lines(self, state: RunState, *, at_once: bool = False) -> Iterator[str]:
        for text, of_host, numbers in self._gathered.due(at_once=at_once):
            # The cause, which is printed at the end, says the same with more words.
            if of_host:
                if not outcome.repeats_cause(text, state.cause):
                    yield f"{_host_names(numbers, state)}: {text}"
            elif state.has_begun or not state.refused:
                is_known = len(numbers) == 1 and numbers[0] < len(state.processes)
                process = state.processes[numbers[0]] if is_known else None
                host_prefix = f"{state.host_name(process.host)}: " if process else ""
                yield f"{host_prefix}{ranks_text(numbers)} {text}"

    def _remedy_lines(self, state: RunState) -> Iterator[str]:
        """Give the command that ends a stall, once the log has said why the ranks stand still."""
        stall = state.stall
        if stall is None:
            self._told_remedy = ""
            return
        advice = advise_stall(state, stall)
        # The stacks have a key in the dashboard, and no command.
        if not stall.explained or advice.remedy is Remedy.SHOW_STACKS:
            return
        remedy_line = describe_advice(state, advice)
        if remedy_line != self._told_remedy:
            self._told_remedy = remedy_line
            yield remedy_line

    def _silence_lines(self, state: RunState) -> Iterator[str]:
        """Say once why nothing is seen of a script that has run for a while."""
        if (
            self._told_silence
            or state.phase is not RunPhase.TRAINING
            or not seen.sees_nothing(state)
        ):
            return
        advice = seen.advice(state, self._clock.now(state))
        self._told_silence = bool(advice)
        yield from filter(None, [advice])

    def _stage_lines(self, state: RunState) -> Iterator[str]:
        """Name a stage of the start when the last rank reaches it."""
        rank_stages = [
            START_PHASES.index(rank.phase) for rank in state.ranks if rank.phase in START_PHASES
        ]
        last_stage = min(rank_stages, default=0)
        if last_stage > self._stage and state.phase is RunPhase.STARTING:
            self._stage = last_stage
            yield f"{START_PHASES[last_stage].value} after {state.elapsed:.1f} s"

    def _describe_event(self, record: Record, state: RunState) -> str:
        match record.event:
            case HostPhaseChanged(host_index, phase) if (
                self._verbose and self._reaching.get(host_index) != phase
            ):  # not at each of many tries
                self._reaching[host_index] = phase
                return f"{state.host_name(host_index)}: {phase}"
            case Hello(hostname=hostname, python=python, torch=torch, cores=cores) if self._verbose:
                torch_text = f"torch {torch}" if torch else "no torch"
                host_facts = f"{hostname}, Python {python}, {torch_text}, {count(cores, 'core')}"
                return f"{state.host_name(record.host)}: {host_facts}"
            # Every rank tells that it has begun: the first one is enough.
            case Started() as start if not self._started:
                self._started = True
                return (
                    f"training: {count(start.world_size, 'rank')}, "
                    f"{count(start.steps, 'step')}, "
                    f"{count(start.parameters, 'parameter')}, "
                    f"{count(start.train_samples, 'sample')}, {start.backend} on {start.device}"
                )
            case Exited(rank, code, signal, stopped) if code != 0 and (
                self._verbose or not stopped
            ):
                if 0 <= rank < state.plan.world_size:
                    self._gathered.add(one_line(f"ended: {signal or f'exit code {code}'}"), rank)
        return ""


class RankLines:
    """The output of ranks and hosts, each line with its source.

    Before the first step all ranks often write the same to stderr, as when a package is missing:
    such a line appears once.
    """

    def __init__(self) -> None:
        self._gathered = GatheredLines()

    def chunks(self, records: list[Record], state: RunState) -> Iterator[str]:
        """Make whole lines, each with its newline, of the text among these records."""
        for record in records:
            output = record.event
            # A text with a path stands in a file that is followed, and was not printed.
            if not isinstance(output, OutputText) or output.path:
                continue
            is_error = output.stream == "stderr"
            if is_error and state.phase is RunPhase.STARTING:
                of_host = output.rank < 0
                for line in shown(output.text):
                    source_number = record.host if of_host else output.rank
                    self._gathered.add(line, source_number, of_host=of_host)
                continue
            if is_error:
                # Lines of the start that are still held came before this one.
                yield from self.rest(state)
            yield prefix_lines(output, state.host_name(record.host))
        yield from self._due_lines(state, at_once=state.phase is RunPhase.TRAINING)

    def rest(self, state: RunState) -> Iterator[str]:
        """Release the lines that are still held at the end of the run."""
        yield from self._due_lines(state, at_once=True)

    def _due_lines(self, state: RunState, *, at_once: bool) -> Iterator[str]:
        for line, of_host, numbers in self._gathered.due(at_once=at_once):
            if not outcome.repeats_cause(line, state.cause):
                source_name = _host_names(numbers, state) if of_host else ranks_text(numbers)
                yield f"[{source_name}] {line}\n"


def _host_number(host: str, state: RunState) -> int:
    return next(
        (state_host.index for state_host in state.hosts if state_host.name == host), SESSION
    )


def _host_names(hosts: Sequence[int], state: RunState) -> str:
    """Name hosts, given by number: node0; node0 and node2; node0 to node3."""
    host_names = [state.host_name(host) for host in hosts]
    if len(hosts) > 2 and hosts[-1] - hosts[0] == len(hosts) - 1:
        return f"{host_names[0]} to {host_names[-1]}"
    return listed(host_names, most=len(host_names))


class _Waiting:
    """Names what the run waits for, when that changes and when it has lasted twice as long as when
    it was named last: no line comes twice."""

    def __init__(self) -> None:
        self._clock = SessionClock()
        self._attempt = 0
        self._named: dict[tuple[str, str], float] = {}
        """How long each wait, by who and what, had lasted when it was named last."""
        self._quiet_until = -math.inf

    def lines(self, state: RunState) -> Iterator[str]:
        now = self._clock.now(state)
        if state.attempt != self._attempt:
            self._attempt = state.attempt
            self._named.clear()
        if now < self._quiet_until:
            return
        for wait in waiting(state, now):
            wait_key = wait.subject, wait.progress
            seconds_before = self._named.get(wait_key, 0.0)
            if not seconds_before or wait.seconds >= max(
                2 * seconds_before, seconds_before + REPEAT_SECONDS
            ):
                self._named[wait_key] = wait.seconds
                self._quiet_until = now + CALM_SECONDS
                yield wait.text()


def prefix_lines(text: OutputText, host: str) -> str:
    """Make the lines of a text, each after its rank or host."""
    source_prefix = f"[rank {text.rank}] " if text.rank >= 0 else f"[{host}] "
    return "".join(f"{source_prefix}{line}\n" for line in shown(text.text))
