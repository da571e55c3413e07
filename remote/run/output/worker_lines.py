"""Finds out which lines of a program are of which rank, where it has started workers itself: these
share its stdout, and many begin their lines with "Rank 3," or "[rank3]:"."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from training.wire.events import Record
from training.wire.host_events import OutputText, WorkerJoined
from training.wire.rank_events import ScriptMetrics

MOST = 1024
"""Ranks that lines may name."""
# Not "Rank-1", which names a metric: the share of queries whose first answer is right.
_RANK = re.compile(r"(?:[\[(<]?rank[ :_=#]{0,2}|\[default)(?P<rank>\d{1,4})\b", re.IGNORECASE)


@dataclass
class _Program:
    """What is known of a program that rankboard has started, and that may have workers."""

    workers: set[int] = field(default_factory=set)
    """Their ranks."""
    named_ranks: set[int] = field(default_factory=set)
    """The ranks that its lines have named."""
    last_steps: dict[str, int] = field(default_factory=dict)
    """By the name of a value, the step of the newest one in a line that names no rank."""
    mixed_names: set[str] = field(default_factory=set)
    """The names of values that several workers print in such lines."""


class WorkerLines:
    """Splits the text of programs by rank, by the workers that joined or that lines named so far.
    It may be pickled.

    A program is known by its host and its rank, called `process` here.
    """

    def __init__(self, ranks: int) -> None:
        """`ranks`: how many rankboard has started."""
        self._started = ranks
        self.world_size = ranks
        """The ranks that may report."""
        self._programs = defaultdict[tuple[int, int], _Program](_Program)

    def take_join(self, host: int, joined: WorkerJoined) -> None:
        """Take in that a process has a worker."""
        self._programs[host, joined.process].workers.add(joined.rank)
        self.world_size = max(self.world_size, joined.world_size)

    def forget(self) -> None:
        """Take in that the ranks are started again."""
        self._programs.clear()
        self.world_size = self._started

    def has_workers(self, host: int, process: int) -> bool:
        """Return True if a worker of the process is known."""
        return bool(self._programs[host, process].workers)

    def workers_of(self, host: int, process: int) -> Sequence[int]:
        """Return the workers of a process, in order; the process itself if it has none."""
        return sorted(self._programs[host, process].workers) or (process,)

    def find_joined(self, record: Record, output: OutputText) -> list[Record]:
        """Return the workers that have become known by the ranks that lines name: several ranks,
        of which rankboard has not started all."""
        if not _may_name(output.text):
            return []
        program = self._programs[record.host, output.rank]
        ranks_of_lines = {rank for rank, _ in split_by_rank(output.text) if 0 <= rank < MOST}
        if ranks_of_lines <= program.named_ranks:
            return []
        program.named_ranks |= ranks_of_lines
        world_size = max(program.named_ranks) + 1
        if not _are_ranks(program.named_ranks) or world_size <= self._started:
            return []
        joined_events = [
            WorkerJoined(rank, output.rank, max(world_size, self.world_size), 0)
            for rank in sorted(program.named_ranks - program.workers)
        ]
        for joined in joined_events:
            self.take_join(record.host, joined)
        return [replace(record, event=joined) for joined in joined_events]

    def split(self, record: Record, output: OutputText) -> Iterator[tuple[int, bool, OutputText]]:
        """Yield the parts of a text, each with its rank, and whether its lines name that rank.

        A line that names none is of the first worker.
        """
        program = self._programs[record.host, output.rank]
        first_worker = self.workers_of(record.host, output.rank)[0]
        known_ranks = program.workers
        if not known_ranks and _are_ranks(program.named_ranks):
            known_ranks = program.named_ranks
        if not known_ranks or not _may_name(output.text):
            yield first_worker, False, output
            return
        for rank, lines in split_by_rank(output.text):
            is_named = rank in known_ranks
            text = replace(output, text="\n".join(lines))
            yield (rank if is_named else first_worker), is_named, text

    def leave_out_mixed(
        self, host: int, process: int, records: Sequence[Record]
    ) -> Sequence[Record]:
        """Return what was read from lines of a process that name no rank, without values that
        several workers print: several at one step are a mixture."""
        program = self._programs[host, process]
        if len(program.workers) < 2:
            return records
        return [_leave_out_mixed(program, record) for record in records]


def _leave_out_mixed(program: _Program, record: Record) -> Record:
    event = record.event
    if not isinstance(event, ScriptMetrics) or not event.step:
        return record
    kept_values = []
    for name, value in event.values:
        if program.last_steps.get(name) == event.step:
            program.mixed_names.add(name)
        program.last_steps[name] = event.step
        if name not in program.mixed_names:
            kept_values.append((name, value))
    return replace(record, event=replace(event, values=tuple(kept_values)))


def _are_ranks(named: Collection[int]) -> bool:
    """Return True if these numbers are those of ranks that share a stdout, as there are several of
    them from 0 on: the rank of a matrix is another thing."""
    return len(named) > 1 and 0 in named


def _may_name(text: str) -> bool:
    """Return True if a line may name a rank, for far less than it takes to look at each."""
    return "ank" in text or "RANK" in text or "default" in text


def split_by_rank(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a text that follow each other and name the same rank, or (-1) none."""
    from remote.formats.records import part_ranks  # here, as only scripts have workers

    last_rank = -1
    lines: list[str] = []
    for line in part_ranks(text).split("\n"):
        match = _RANK.match(line.lstrip())
        rank = int(match["rank"]) if match else -1
        if lines and rank != last_rank:
            yield last_rank, lines
            lines = []
        last_rank = rank
        lines.append(line)
    yield last_rank, lines
