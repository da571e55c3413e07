"""Small copies of recorded runs: what tells of speed in their records, and nothing else.

    python -m tests.kit.replayed runs/RUN --name calm --note "4 ranks on 2 cores"

makes one of a run directory.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from remote.cluster.hosts import Host
from remote.plan.plan import Plan
from remote.record import events_file, read
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from training.job import Job
from training.wire.events import Event, Record, decode, encode
from training.wire.host_events import Hello, HostSample, RankSample, Spawned
from training.wire.rank_events import Entered, Evaluated, Finished, Saved, Started, StepFinished
from training.wire.step_block import decode_rows, encode_row, pack_rows

FOLDER = Path(__file__).parents[1] / "fixtures" / "runs"
KEPT = (
    Entered,
    Evaluated,
    Finished,
    Hello,
    HostSample,
    RankSample,
    Saved,
    Spawned,
    Started,
    StepFinished,
)
BLOCK_SECONDS = 1.0
DIGITS = 4
"""Of the numbers of a step."""
SETTINGS = ("sync", "sync_option", "model", "dataset", "batch_size", "checkpoint_every", "steps")
FIGURES = ("seconds", "data", "ready", "cpu_seconds")


class Replayed:
    """A run to replay. `note` says under what circumstances it was recorded, `slow` which rank had
    less CPU than the others, if any."""

    def __init__(self, path: Path) -> None:
        head, *self._lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        known = json.loads(head)
        self.note: str = known["note"]
        self.slow: int | None = known["slow"]
        hosts = tuple(
            Host(name, f"127.0.0.{index}", slots=slots)
            for index, (name, slots) in enumerate(known["hosts"], 1)
        )
        self.plan = Plan(known["run"], hosts, replace(Job(), **_settings(known["job"])))

    def records(self) -> Iterator[Record]:
        """Its records, in order of arrival."""
        for line in self._lines:
            record = decode(line.encode())
            assert record
            yield record

    def states(self, *, in_blocks: bool = False) -> Iterator[RunState]:
        """Its state after each record, always the same object. `in_blocks`: the steps come in
        blocks."""
        state = RunState(self.plan)
        records = gather_steps(self.records()) if in_blocks else self.records()
        for record in records:
            apply_record(state, record)
            yield state


def gather_steps(records: Iterable[Record]) -> Iterator[Record]:
    """Gather the steps of each rank, as its agent does: to blocks of a second at the most, which
    end before anything else that the rank reports."""
    gathered: dict[int, list[Record]] = {}
    for record in records:
        for rank, waiting in [*gathered.items()]:
            if record.time - waiting[0].time >= BLOCK_SECONDS:
                yield _make_block(gathered.pop(rank))
        rank = getattr(record.event, "rank", -1)
        if isinstance(record.event, StepFinished):
            gathered.setdefault(rank, []).append(record)
            continue
        if rank in gathered:
            yield _make_block(gathered.pop(rank))
        yield record
    yield from map(_make_block, gathered.values())


def _make_block(records: list[Record]) -> Record:
    steps = [record.event for record in records]
    rows = map(encode_row, steps, [record.time for record in records])
    block_rows = decode_rows("".join(rows))
    assert block_rows
    return replace(records[-1], event=pack_rows(block_rows))


def all_runs(beginning: str) -> list[Path]:
    """The copies whose names begin so."""
    return sorted(FOLDER.glob(f"{beginning}*.jsonl.xz"))


def _settings(known: dict[str, Any]) -> dict[str, Any]:
    return known | {"sync_option": tuple(known["sync_option"])}


def copy(folder: Path, note: str, slow: int | None) -> bytes:
    """The copy of a recorded run."""
    plan = read.load_plan(folder)
    assert plan.job
    head = {
        "run": plan.run,
        "note": note,
        "slow": slow,
        "hosts": [(host.name, host.slots) for host in plan.hosts],
        "job": {name: asdict(plan.job)[name] for name in SETTINGS},
    }
    lines = [json.dumps(head)]
    for record in events_file.read_records(folder, len(plan.hosts)):
        if isinstance(record.event, KEPT):
            when = round(record.time, 3)
            lines.append(encode(replace(record, time=when, event=_bare(record.event))).strip())
    return lzma.compress("\n".join(lines).encode(), preset=9)


def _bare(event: Event) -> Event:
    """An event without what no conclusion on speed needs."""
    match event:
        case StepFinished():
            figures = {name: float(f"{getattr(event, name):.{DIGITS}g}") for name in FIGURES}
            return StepFinished(event.rank, event.epoch, event.step, 1.0, **figures)
        case Evaluated():
            return replace(event, confusion=(), classes=())
        case Hello():
            return Hello("", "", 0, "", "", "", event.boot_id, event.cores, 0)
        case HostSample():
            return HostSample(tuple(map(round, event.cpu)), 0, 0)
        case RankSample():
            return RankSample(event.rank, round(event.cpu), 0)
    return event


def main() -> None:
    """Copy runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=FOLDER)
    parser.add_argument("--name", required=True, help="what the names of the copies begin with")
    parser.add_argument("--note", required=True, help="how the runs were made")
    parser.add_argument("--slow", type=int, metavar="RANK", help="the rank with less CPU")
    given = parser.parse_args()
    for folder in given.folder:
        short = "-".join(folder.name.split("-")[2:])
        path = given.into / f"{given.name}-{short}.jsonl.xz"
        path.write_bytes(copy(folder, given.note, given.slow))
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
