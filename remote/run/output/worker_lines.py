"""Finds out which lines of a program are of which rank, where it has started workers itself: these
share its stdout, and many begin their lines with "Rank 3," or "[rank3]:"."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from remote.formats.records import part_ranks
from training.wire.events import Record
from training.wire.host_events import OutputText, WorkerJoined
from training.wire.rank_events import ScriptMetrics

MOST = 1024
"""Ranks that lines may name."""
# Not "Rank-1", which names a metric: the share of queries whose first answer is right.
_RANK = re.compile(r"(?:[\[(<]?rank[ :_=#]{0,2}|\[default)(?P<rank>\d{1,4})\b", re.IGNORECASE)
_Process = tuple[int, int]
"""A host and the rank whose program printed."""


class WorkerLines:
    """Splits the text of programs by rank, as told or seen so far. It may be pickled."""

    def __init__(self, ranks: int) -> None:
        """`ranks`: how many rankboard has started."""
        self._started = ranks
        self.world_size = ranks
        """The ranks that may report."""
        self._workers: dict[_Process, set[int]] = defaultdict(set)
        self._named: dict[_Process, set[int]] = defaultdict(set)
        """The ranks that its lines have named."""
        self._values: dict[_Process, dict[str, int]] = defaultdict(dict)
        """By name, the step of its newest value in a line that names no rank."""
        self._mixed: dict[_Process, set[str]] = defaultdict(set)

    def take_join(self, host: int, joined: WorkerJoined) -> None:
        """Take in that a process has a worker."""
        self._workers[host, joined.process].add(joined.rank)
        self.world_size = max(self.world_size, joined.world_size)

    def forget(self) -> None:
        """Take in that the ranks are started again."""
        self._workers.clear()
        self._named.clear()
        self._values.clear()
        self._mixed.clear()
        self.world_size = self._started

    def has_workers(self, host: int, process: int) -> bool:
        """Return True if a worker of the process is known."""
        return bool(self._workers.get((host, process)))

    def workers_of(self, host: int, process: int) -> Sequence[int]:
        """Return the workers of a process, in order; the process itself if it has none."""
        return sorted(self._workers.get((host, process), ())) or (process,)

    def find_joined(self, record: Record, output: OutputText) -> list[Record]:
        """Return the workers that have become known by the ranks that lines name: several ranks,
        of which rankboard has not started all."""
        process = (record.host, output.rank)
        named_ranks = self._named[process]
        if not _may_name(output.text):
            return []
        new_ranks = {
            rank for rank, _ in split_by_rank(output.text) if 0 <= rank < MOST
        } - named_ranks
        if not new_ranks:
            return []
        named_ranks |= new_ranks
        world_size = max(named_ranks) + 1
        if not _are_ranks(named_ranks) or world_size <= self._started:
            return []
        joined_events = [
            WorkerJoined(rank, output.rank, max(world_size, self.world_size), 0)
            for rank in sorted(named_ranks - self._workers[process])
        ]
        for joined in joined_events:
            self.take_join(record.host, joined)
        return [replace(record, event=joined) for joined in joined_events]

    def split(self, record: Record, output: OutputText) -> Iterator[tuple[int, bool, OutputText]]:
        """Yield the parts of a text, each with its rank, and whether its lines name that rank.

        A line that names none is of the first worker.
        """
        process = (record.host, output.rank)
        first_worker = self.workers_of(*process)[0]
        named_ranks = self._named[process]
        known_ranks = self._workers.get(process) or (named_ranks if _are_ranks(named_ranks) else ())
        if not known_ranks or not _may_name(output.text):
            yield first_worker, False, output
            return
        for rank, lines in split_by_rank(output.text):
            is_named = rank in known_ranks
            text = replace(output, text="\n".join(lines))
            yield (rank if is_named else first_worker), is_named, text

    def select(self, host: int, process: int, records: Sequence[Record]) -> list[Record]:
        """Return what was read from lines of a process that name no rank, without values that
        several workers print: several at one step are a mixture."""
        if len(self.workers_of(host, process)) < 2:
            return list(records)
        return [self._select(host, process, record) for record in records]

    def _select(self, host: int, process: int, record: Record) -> Record:
        event = record.event
        if not isinstance(event, ScriptMetrics) or not event.step:
            return record
        last_steps = self._values[host, process]
        mixed_names = self._mixed[host, process]
        kept_values = []
        for name, value in event.values:
            if last_steps.get(name) == event.step:
                mixed_names.add(name)
            last_steps[name] = event.step
            if name not in mixed_names:
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
