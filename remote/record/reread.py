"""Reads the steps of a part of a recorded run again, if its curves are too coarse."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from msgspec import Struct

from remote import events
from remote.events import expand
from remote.record.events_file import EventsReader, compile_scan, has_steps_between, select_lines
from remote.run.output.script_readings import Expand
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from training.wire.events import split_steps
from training.wire.host_events import Exited, OutputText
from training.wire.rank_events import ScriptMetrics, Started, StepFinished

STARTED = compile_scan((Started.wire_name,))
OF_SCRIPT = compile_scan((Started.wire_name, OutputText.wire_name, Exited.wire_name))
"""Finds the events of which the steps of a script are made."""


class RunClocks(Struct, frozen=True):
    """What turns the times of records into seconds since the run began, see `remote.run.apply`."""

    started: float
    """The Unix time at which the run began."""
    hosts: Sequence[tuple[float, float]]
    """Of each host: by how much its clock is ahead, and when its agent began, in seconds."""

    @classmethod
    def of(cls, run: RunState) -> RunClocks:
        """Return those of a run. The caller holds its lock."""
        return cls(run.started, [(host.offset, host.began) for host in run.hosts])

    def seconds(self, host: int, time: float) -> float:
        """Return the seconds from the beginning of the run to a time of a host's clock."""
        clock_offset, agent_began = self.hosts[host]
        return max(time - clock_offset, agent_began) - self.started


def reread_steps(
    folder: Path,
    ranks: int,
    clocks: RunClocks,
    first_step: int,
    last_step: int,
    expand: Expand = expand,
) -> Curves:
    """Return the curves of the steps `first_step` to `last_step` of a recorded run.

    What a script prints is expanded from the beginning on, as a line may mean little without those
    before. Raises: RunFolderError.
    """
    host_count = len(clocks.hosts)
    curves = Curves(ranks, host_count)
    attempt = 0
    needed_events = STARTED if expand is events.expand else OF_SCRIPT

    def is_needed(lines: bytes) -> bool:
        has_steps = has_steps_between(lines, first_step, last_step)
        return has_steps or needed_events.search(lines) is not None

    with closing(EventsReader(folder, host_count, expand)) as reader:
        reader.require_file()
        while block := reader.read_block():
            records = reader.parser.parse(select_lines(block, is_needed))
            for record in chain.from_iterable(map(split_steps, records)):
                event = record.event
                if record.attempt > attempt and isinstance(event, Started | StepFinished):
                    attempt = record.attempt
                    # A restart repeats steps after its checkpoint: those of the failed attempt
                    # are dropped.
                    curves.rewind(event.resumed if isinstance(event, Started) else event.step - 1)
                if not isinstance(event, StepFinished | ScriptMetrics) or record.attempt < attempt:
                    continue
                if (
                    record.host >= 0
                    and first_step <= event.step <= last_step
                    and 0 <= event.rank < ranks
                ):
                    made_at = record.time
                    if isinstance(event, ScriptMetrics):
                        made_at = event.made_at(made_at)
                    curves.take(event, event.rank, event.step, clocks.seconds(record.host, made_at))
    return curves
