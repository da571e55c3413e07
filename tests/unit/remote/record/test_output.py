"""What ranks have printed is read without their steps, and the last lines from the end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from remote.record import output
from remote.record.events_file import EventsReader, RunFolderError, read_records
from remote.record.output import is_output, read_but_numbers, read_last_output
from tests.kit.histories import History, block_of, plan, stepped
from tests.kit.recorded import recorded
from training.wire.events import PREFIX, Event, Record, encode
from training.wire.host_events import FILE, OutputText, RankSample
from training.wire.jsonl import dumps
from training.wire.rank_events import Finished


def draw(seed: int) -> History:
    """A run whose ranks print lines of any length now and then."""
    random = Random(seed)
    history = History(plan(2)).training(2)
    for number in range(200):
        rank = random.randrange(2)
        text = "\n".join("x" * random.randrange(60) for _ in range(random.randrange(1, 4)))
        event: Event = stepped(rank, number + 3)
        match random.randrange(8):
            case 0:
                event = OutputText(rank, "stdout", f"{number} {text}")
            case 1:
                event = OutputText(rank, "stderr", "y" * random.randrange(2_000))
            case 2:
                event = OutputText(rank, f"{FILE}log.csv", text)
            case 3:
                report = dumps({"event": Finished.wire_name, "rank": rank})
                event = OutputText(rank, "stdout", f"{text}\n{PREFIX}{report}\nbehind it")
        history.rank(rank, event)
    return history


def lines_of(records: Iterable[Record]) -> list[tuple[int, str, str]]:
    texts = [record.event for record in records if isinstance(record.event, OutputText)]
    return [(text.rank, text.stream, line) for text in texts for line in text.text.split("\n")]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block", [100, 700, 1 << 20])
@pytest.mark.parametrize("ranks", [None, {1}, {0, 1}])
def test_they_are_those_of_the_whole_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, block: int, ranks: set[int] | None
) -> None:
    monkeypatch.setattr(output, "BLOCK", block)
    folder = recorded(tmp_path, draw(seed))
    whole = lines_of(one for one in read_records(folder) if is_output(one, ranks))
    for count in (0, 1, 2, 7, 30, len(whole), len(whole) + 1):
        found = read_last_output(folder, 2, count, ranks)
        assert lines_of(found.records) == whole[max(0, len(whole) - count) :]
        assert found.end == (folder / "events.jsonl").stat().st_size


@pytest.mark.parametrize("block", [100, 1 << 20])
def test_all_but_steps_and_samples_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(output, "BLOCK", block)
    history = draw(1)
    for _ in range(20):
        history.rank(1, RankSample(1, 9.0, 1), block_of([stepped(1, 999)] * 9, history.now))
        history.rank(1, OutputText(1, "stdout", "so it goes"))
    folder = recorded(tmp_path, history)
    with (folder / "events.jsonl").open("a") as file:
        file.write(encode(history.records[-1])[:-1])
    whole = [record for record in read_records(folder) if not isinstance(record.event, RankSample)]
    kept = [record for record in whole if getattr(record.event, "step", 0) != 999]
    assert [*read_but_numbers(folder, 2)] == kept


def test_few_blocks_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "BLOCK", 1_000)
    folder = recorded(tmp_path, draw(0))
    sizes = []
    read_block = EventsReader.read_block

    def counted(reader: EventsReader, size: int) -> bytes:
        sizes.append(size)
        return read_block(reader, size)

    monkeypatch.setattr(EventsReader, "read_block", counted)
    assert len(read_last_output(folder, 2, 3).records) >= 1
    assert sum(sizes) < (folder / "events.jsonl").stat().st_size / 4


def test_a_record_that_is_empty_or_missing(tmp_path: Path) -> None:
    folder = recorded(tmp_path, History(plan(2)))
    with pytest.raises(RunFolderError):
        read_last_output(folder, 2, 5)
    (folder / "events.jsonl").write_text("")
    assert read_last_output(folder, 2, 5).records == []
    (folder / "events.jsonl").write_text("half a line")
    assert read_last_output(folder, 2, 5).records == []
