"""Takes apart the records of a script: what its ranks print is followed by what was read of it."""

from __future__ import annotations

from collections.abc import Sequence

from remote.events import expand
from remote.formats.rules import Rule
from remote.run.output.rank_output import FirstReadings, RankOutput
from remote.run.output.worker_lines import WorkerLines
from training.wire.events import Record
from training.wire.host_events import Exited, OutputText, WorkerJoined
from training.wire.rank_events import StepFinished
from training.wire.step_block import StepBlock


class Expander:
    """Takes apart the records of a script, see
    `script_readings.expander`. It may be pickled.

    `watch`: ranks may report their steps themselves. `rules` come first when output is read.
    """

    def __init__(self, ranks: int, *, watch: bool, rules: tuple[Rule, ...] = ()) -> None:
        self._lines = WorkerLines(ranks)
        self._attempt = 0
        self._watch = watch
        self._rules = rules
        self._outputs: dict[tuple[int, int], RankOutput] = {}
        """By host and rank."""
        self._first_readings: FirstReadings = {}
        self._waiting: set[tuple[int, int]] = set()
        """The outputs of which something is held back."""

    def __call__(self, record: Record) -> Sequence[Record]:
        """Return the records that a record stands for."""
        record_parts = expand(record)
        is_output = type(record.event) in (OutputText, StepBlock, Exited)
        if type(record.event) is WorkerJoined:
            self._lines.take_join(record.host, record.event)
        if not is_output and not self._waiting:
            return record_parts
        expanded_records = self._release(record)
        for record_part in record_parts:
            expanded_records.append(record_part)
            if is_output:
                expanded_records += self._read(record_part, record.time)
        # The watch may have reported a step just now: those of the log have waited for that.
        return [*expanded_records, *self._release(record)]

    def _read(self, record: Record, now: float) -> Sequence[Record]:
        """Read a part of a record that has come `now`. A step has the time at which it ended."""
        event = record.event
        if not 0 <= getattr(event, "rank", -1) < self._lines.world_size:
            return ()
        if record.attempt > self._attempt:
            self._attempt = record.attempt
            self._lines.forget()
        match event:
            case OutputText():
                return self._read_text(event, record)
            case StepFinished(rank):
                rank_output = self._find_output(record, rank)
                if rank_output:
                    rank_output.see_step(event, record.time, now)
            case StepBlock(rank):
                rank_output = self._find_output(record, rank)
                if rank_output:
                    rank_output.see_steps(event.step, event.unpack(), now)
            case Exited(process):
                return [
                    derived_record
                    for rank in self._lines.workers_of(record.host, process)
                    for derived_record in self._end_output(record, rank)
                ]
        return ()

    def _find_output(self, record: Record, rank: int) -> RankOutput | None:
        """Return what reads the output of a rank; None if the record is of an attempt before."""
        output_key = record.host, rank
        rank_output = self._outputs.get(output_key)
        if rank_output is None or record.attempt > rank_output.attempt:
            rank_output = RankOutput(rank, record.attempt, self._rules, may_be_watched=self._watch)
            self._outputs[output_key] = rank_output
        return rank_output if record.attempt == rank_output.attempt else None

    def _read_text(self, text: OutputText, record: Record) -> Sequence[Record]:
        had_workers = self._lines.has_workers(record.host, text.rank)
        derived_records = self._lines.find_joined(record, text)
        if derived_records and not had_workers:  # what is held back may be of any of them
            self._outputs.pop((record.host, text.rank), None)
            self._waiting.discard((record.host, text.rank))
        for rank, is_named, part in self._lines.split(record, text):
            rank_output = self._find_output(record, rank)
            if rank_output is None:
                continue
            readings = rank_output.read(part, record, self._first_readings)
            if not is_named:
                readings = self._lines.leave_out_mixed(record.host, text.rank, readings)
            derived_records += readings
            self._note_waiting(record.host, rank_output)
        return derived_records

    def _end_output(self, record: Record, rank: int) -> Sequence[Record]:
        rank_output = self._find_output(record, rank)
        if rank_output is None:
            return ()
        derived_records = rank_output.end(record)
        self._note_waiting(record.host, rank_output)
        return derived_records

    def _note_waiting(self, host: int, rank_output: RankOutput) -> None:
        if rank_output.waits:
            self._waiting.add((host, rank_output.rank))
        else:
            self._waiting.discard((host, rank_output.rank))

    def _release(self, record: Record) -> list[Record]:
        """Release what ranks of the host have printed and has waited long enough."""
        released_records: list[Record] = []
        # A copy, since the set shrinks meanwhile; in order, so that a replay comes to the same
        # records.
        for output_key in sorted(self._waiting):
            rank_output = self._outputs[output_key]
            if output_key[0] == record.host and rank_output.is_due(record.time):
                self._waiting.discard(output_key)
                released_records += rank_output.release()
        return released_records
