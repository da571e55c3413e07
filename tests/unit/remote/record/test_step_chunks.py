"""The columns of steps as bytes in a file of their own, and what is left of them after crashes."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from remote.events import SessionClosed
from remote.metrics import gather, step_collector
from remote.metrics.run import read_figures
from remote.metrics.step_index import read_part
from remote.record import events_file, layout, snapshots, step_chunks
from remote.record.step_chunks import (
    ChunkPlace,
    ChunkReader,
    cut_unfinished,
    measure_density,
    split_chunks,
)
from remote.record.write import Recorder
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from tests.kit.histories import History, block_of, plan, said, stepped
from tests.kit.recorded import record, recorded
from training.wire.events import Record, encode
from training.wire.step_block import MOST_STEPS, StepBlock
from training.writing import write_all


def history(num_blocks: int = 12, seed: int = 1) -> History:
    """A run whose ranks report steps in blocks, with other records between them."""
    random = Random(seed)
    made = History(plan(2)).training(1)
    for number in range(num_blocks):
        for rank in (0, 1):
            begin = 2 + 40 * number
            steps = [
                replace(stepped(rank, step), loss=random.random())
                for step in range(begin, begin + 40)
            ]
            made.rank(rank, block_of(steps, made.now, 0.001))
            made.rank(rank, said(rank, f'a line of {rank}, "columns":"@1+2"}}', "stdout"))
    return made


def all_records(folder: Path, remarks: list[str] | None = None) -> list[Record]:
    remark = remarks.append if remarks is not None else None
    return list(events_file.read_records(folder, 2, remark))


def num_blocks(records: list[Record]) -> int:
    return sum(isinstance(one.event, StepBlock) for one in records)


# Written and read ---------------------------------------------------------------------------------


def test_columns_are_bytes_in_their_own_file(tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    blocks = [one.event for one in made.records if isinstance(one.event, StepBlock)]
    chunks = b"".join(block.packed for block in blocks)
    assert (folder / layout.STEP_CHUNKS).read_bytes() == chunks
    events = (folder / layout.EVENTS).read_bytes()
    assert not any(block.columns.encode() in events for block in blocks)
    assert all_records(folder) == made.records
    size = len(events) + len(chunks)
    assert measure_density(folder) == pytest.approx(size / len(events))


def test_lines_with_their_columns_can_be_read_as_well(tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    (folder / layout.STEP_CHUNKS).unlink()
    lines = [encode(one).encode() for one in made.records]
    (folder / layout.EVENTS).write_bytes(b"".join(lines))
    assert all_records(folder) == made.records
    into = Recorder(tmp_path, made.plan, continues=True)
    record(into, made, RunState(made.plan))
    into.release()
    assert all_records(folder) == [*made.records, *made.records]
    assert (folder / layout.STEP_CHUNKS).stat().st_size > 0


def test_lines_of_another_form_stay_as_they_are() -> None:
    block = block_of([stepped(0, 1)], 1000.0)
    line = encode(Record(0, 0, 7, 1000.0, block)).encode()
    for strange in (
        line.replace(b'"host":0', b'"host": 0'),
        line.replace(b'"host":0', b'"host":-1'),
        line.replace(b"}\n", b',"more":1}\n'),
        line.replace(b'"}\n', b"\n"),
        line.replace(b'"}\n', b'"} \n'),
        line.replace(b"steps", b"stepz"),
        line.replace(block.columns.encode(), b"x"),
        b',"columns":"\n',
        encode(Record(0, 0, 1, 1000.0, block)).encode(),  # with the format
    ):
        assert split_chunks(strange + line, 10) == (
            strange + line.replace(block.columns.encode(), b"@10+%d" % len(block.packed)),
            block.packed,
        )
        assert split_chunks(line + strange, 0)[0].endswith(strange)


@pytest.mark.parametrize("seed", range(20))
def test_restored_lines_are_those_of_the_agents(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    lines = [encode(one).encode() for one in history(4, seed).records]
    random.shuffle(lines)
    short_lines, chunks = split_chunks(b"".join(lines), 0)
    (tmp_path / layout.STEP_CHUNKS).write_bytes(chunks)
    reader = ChunkReader(tmp_path)
    assert [reader.restore(line) for line in short_lines.splitlines(keepends=True)] == lines
    reader.close()


# Crashes ------------------------------------------------------------------------------------------


def test_a_chunk_that_no_line_names_does_no_harm(tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    with (folder / layout.STEP_CHUNKS).open("ab") as file:
        file.write(b"killed before the line")
    into = Recorder(tmp_path, made.plan, continues=True)
    record(into, made, RunState(made.plan))
    into.release()
    assert all_records(folder) == [*made.records, *made.records]


@pytest.mark.parametrize("written", [0, 1, 300])
def test_a_full_disk_leaves_no_line_without_its_columns(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = history()
    into = Recorder(tmp_path, made.plan)
    records = made.records
    made.records = records[:20]
    record(into, made, RunState(made.plan))

    def fail(descriptor: int, data: bytes) -> None:
        write_all(descriptor, data[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    made.records = records[20:30]
    with monkeypatch.context() as patched:
        patched.setattr(step_chunks, "write_all", fail)
        record(into, made, RunState(made.plan))
        assert into.flush() == "", "nothing is missing"
    made.records = records[30:]
    record(into, made, RunState(made.plan))
    into.release()
    assert all_records(into.folder) == records

    for line in encode(records[-2]), encode(records[-4]):
        into.raw(line.encode())
    monkeypatch.setattr("remote.record.step_chunks.write_all", fail)
    monkeypatch.setattr("remote.record.files.write_all", fail)
    assert "its record has gaps" in into.flush()


@pytest.mark.parametrize("lost", [1, 100, 700, 2_000])
@pytest.mark.parametrize("how", ["shorter", "zeros"])
def test_lines_whose_chunks_a_crash_has_taken_are_asked_for_again(
    lost: int, how: str, tmp_path: Path
) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    path = folder / layout.STEP_CHUNKS
    size = path.stat().st_size
    os.truncate(path, size - lost)
    if how == "zeros":
        os.truncate(path, size)
    into = Recorder(tmp_path, made.plan, continues=True)
    kept = all_records(folder)
    assert kept == made.records[: len(kept)]
    assert isinstance(made.records[len(kept)].event, StepBlock)
    assert num_blocks(kept) < 24
    made.records = made.records[len(kept) :]
    record(into, made, RunState(made.plan))
    into.release()
    assert all_records(folder) == history().records


def test_a_record_whose_chunks_somebody_has_deleted_is_not_cut(tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    (folder / layout.STEP_CHUNKS).unlink()
    before = (folder / layout.EVENTS).read_bytes()
    into = Recorder(tmp_path, made.plan, continues=True)
    record(into, made, RunState(made.plan))
    into.release()
    assert (folder / layout.EVENTS).read_bytes().startswith(before)
    remarks = list[str]()
    read = all_records(folder, remarks)
    # Those of before have not become those of later.
    others = [one for one in made.records if not isinstance(one.event, StepBlock)]
    assert read == [*others, *made.records]
    assert remarks == [
        f"{folder / layout.EVENTS}: 24 blocks of steps left out: steps.bin: No such file or "
        "directory"
    ]


def test_much_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_chunks, "MOST_CUT", 1_000)
    folder = recorded(tmp_path, history())
    os.truncate(folder / layout.STEP_CHUNKS, 0)
    before = (folder / layout.EVENTS).read_bytes()
    assert not cut_unfinished(folder)
    assert (folder / layout.EVENTS).read_bytes() == before


@pytest.mark.parametrize("searched", [200, 777, 4_096])
def test_a_long_record_is_searched_in_parts(
    searched: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_chunks, "SEARCHED", searched)
    made = history()
    folder = recorded(tmp_path, made)
    path = folder / layout.EVENTS
    path.write_bytes(path.read_bytes() + b"x" * 10_000 + b"\n")
    for end in range((folder / layout.STEP_CHUNKS).stat().st_size, -1, -997):
        os.truncate(folder / layout.STEP_CHUNKS, end)
        assert cut_unfinished(folder)
        kept = all_records(folder)
        assert kept == made.records[: len(kept)]
        assert sum(len(one.event.packed) for one in kept if isinstance(one.event, StepBlock)) <= end


# Files of somebody else ---------------------------------------------------------------------------


def name_places(folder: Path, places: list[str]) -> None:
    """Let the blocks of a record name these places, in turn."""
    path = folder / layout.EVENTS
    blocks = iter(places)

    def replaced(match: re.Match[bytes]) -> bytes:
        return b'"columns":"%b"}\n' % next(blocks, match[1].decode()).encode()

    path.write_bytes(re.sub(rb'"columns":"(@[^"]*)"\}\n', replaced, path.read_bytes()))


@pytest.mark.parametrize(
    "place",
    [
        *("@0+1", "@0+0", "@1+300", "@999999999+300", "@9999999999999999+9999999"),
        *("@0+9999999", "@-1+300", "@0+-300", "@0", "@", "@0+300+1", "@" + "9" * 40 + "+300"),
    ],
)
def test_places_that_have_no_chunk_are_left_out(place: str, tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    expected = num_blocks(made.records) - 1
    name_places(folder, [place])
    remarks = list[str]()
    assert num_blocks(all_records(folder, remarks)) == expected
    if re.fullmatch(r"@\d{1,16}\+\d{1,7}", place):
        explanation = "columns are not whole in steps.bin"
        assert remarks == [f"{folder / layout.EVENTS}: 1 block of steps left out: {explanation}"]


def test_places_may_overlap(tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    first = next(one.event for one in made.records if isinstance(one.event, StepBlock))
    name_places(folder, [f"@0+{len(first.packed)}"] * 24)
    blocks = [one.event for one in all_records(folder) if isinstance(one.event, StepBlock)]
    assert len(blocks) == 24
    assert {block.columns for block in blocks} == {first.columns}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "empty", "other"])
def test_what_is_no_file_of_chunks_is_said(kind: str, tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    path = folder / layout.STEP_CHUNKS
    target = tmp_path / "elsewhere"
    path.rename(target)
    before = target.read_bytes()
    match kind:
        case "link":
            path.symlink_to(target)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "empty":
            path.touch()
        case "other":
            path.write_bytes(bytes(100_000))
    remarks = list[str]()
    others = [one for one in made.records if not isinstance(one.event, StepBlock)]
    assert all_records(folder, remarks) == others
    (remark,) = remarks
    assert "24 blocks of steps left out: " in remark
    if kind in ("link", "pipe", "folder"):
        into = Recorder(tmp_path, made.plan, continues=True)
        record(into, made, RunState(made.plan))
        into.release()
        assert all_records(folder) == [*others, *made.records]
    assert target.read_bytes() == before


def test_a_file_that_is_cut_while_it_is_read_ends_nothing(tmp_path: Path) -> None:
    made = history()
    folder = recorded(tmp_path, made)
    reader = events_file.EventsReader(folder, 2)
    read = list[Record]()
    while num_blocks(read) < 5:
        read += reader.read_records()
    os.truncate(folder / layout.STEP_CHUNKS, 10)
    read += reader
    assert num_blocks(read) == 5
    assert reader.parser.num_without_columns == 19
    reader.close()


def test_a_chunk_is_not_longer_than_a_block_can_be(tmp_path: Path) -> None:
    path = tmp_path / layout.STEP_CHUNKS
    path.touch()
    os.truncate(path, 1 << 40)
    reader = ChunkReader(tmp_path)
    assert reader.has(ChunkPlace(1 << 30, MOST_STEPS * 92))
    assert not reader.has(ChunkPlace(0, MOST_STEPS * 92 + 10_000))
    reader.close()


# What goes on from them ---------------------------------------------------------------------------


def test_a_snapshot_belongs_to_its_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "APART", 1)
    made = history()
    state = RunState(made.plan)
    into = Recorder(tmp_path, made.plan)
    record(into, made, state)
    into.leave(state, expander(made.plan))
    assert snapshots.find_newest(into.folder, made.plan)
    path = into.folder / layout.STEP_CHUNKS
    chunks = path.read_bytes()
    for changed in (chunks[:-1], chunks[:-1] + b"x"):
        path.write_bytes(changed)
        assert snapshots.find_newest(into.folder, made.plan) is None
    path.write_bytes(chunks)
    assert snapshots.find_newest(into.folder, made.plan)
    path.rename(tmp_path / "moved")
    path.write_bytes(chunks)
    assert snapshots.find_newest(into.folder, made.plan) is None, "another file"


@pytest.mark.parametrize("knows", [True, False])
def test_figures_of_a_run_are_read_without_the_chunks_that_are_missing(
    knows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`knows`: a snapshot has the state."""
    monkeypatch.setattr(snapshots, "APART", 1 if knows else 1 << 30)
    monkeypatch.setattr(snapshots, "_TAIL", 100)
    monkeypatch.setattr(step_collector, "MOST_ROWS", 1_000)
    monkeypatch.setattr(gather, "MOST_ROWS", 64)
    made = history(20).done(0, 1).session(SessionClosed())
    state = RunState(made.plan)
    into = Recorder(tmp_path, made.plan)
    record(into, made, state)
    into.close(state, expander(made.plan))
    folder = into.folder
    assert bool(snapshots.find_newest(folder, made.plan)) is knows
    # Of the same length, so that the snapshot still belongs to the record.
    path = folder / layout.EVENTS
    path.write_bytes(re.sub(rb'"@\d{4}\+', b'"@9999+', path.read_bytes(), count=10))
    assert bool(snapshots.find_newest(folder, made.plan)) is knows
    remarks = list[str]()
    figures = read_figures(folder, remarks.append, keeps_all=True)
    assert figures.all_steps is not None
    steps = [step for part in figures.all_steps() for step in read_part(part).step.tolist()]
    assert len(steps) == 2 + 40 * (40 - 10)
    assert len(remarks) == 1
    assert "10 blocks of steps left out" in remarks[0]
