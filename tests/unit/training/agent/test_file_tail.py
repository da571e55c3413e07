"""Files that a program writes, as its agent reads them."""

from __future__ import annotations

import os
import threading
from base64 import b64decode
from pathlib import Path

import pytest

from training.agent.file_tail import files as followed
from training.agent.file_tail.files import FileFollower, FollowedFiles
from training.agent.file_tail.frames import LONGEST, Frames, masked_crc
from training.agent.find_files import Search
from training.agent.host.redaction import Redaction
from training.agent.ranks.pipes import CHUNK
from training.wire.commands import Placement
from training.wire.events import Event
from training.wire.host_events import AGENT, OutputText


def files(folder: Path, *patterns: str) -> FollowedFiles:
    made = FollowedFiles(patterns or ("*",), str(folder), 3, Redaction())
    assert made.begin() == []
    return made


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def told(events: list[Event]) -> list[tuple[str, str]]:
    texts = [event for event in events if isinstance(event, OutputText)]
    assert len(texts) == len(events)
    return [(text.path, text.text) for text in texts]


# Which files


def test_patterns_find_files_below_the_folder_and_at_any_depth(tmp_path: Path) -> None:
    for name in ("a.csv", "b.txt", "x/y/a.csv", ".hidden/a.csv", "x/.a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(*patterns: str) -> list[str]:
        paths = Search().find(patterns, str(tmp_path))
        return [os.path.relpath(path, tmp_path) for path in paths]

    assert found("*.csv") == ["a.csv"]
    assert found("**/*.csv") == ["a.csv", "x/y/a.csv"]
    assert found("x/**") == ["x/y/a.csv"]
    assert found("*/y/*.csv", "a.csv", "*.csv") == ["x/y/a.csv", "a.csv"]
    assert found(f"{tmp_path}/[ab].*") == ["a.csv", "b.txt"]
    assert found(".hidden/*") == [".hidden/a.csv"]
    assert found("none/*.csv", "b.txt/*") == []


def test_a_pattern_begins_at_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.csv").touch()
    assert Search().find(["~/*.csv"], "/") == [str(tmp_path / "a.csv")]


def test_the_folder_is_no_pattern(tmp_path: Path) -> None:
    append(tmp_path / "a.csv", "1\n")
    (tmp_path / "[a]").mkdir()
    assert Search().find(["*.csv"], str(tmp_path / "[a]")) == []
    append(tmp_path / "[a]/b.csv", "1\n")
    assert Search().find(["*.csv"], str(tmp_path / "[a]")) == [str(tmp_path / "[a]/b.csv")]


def test_links_are_followed_only_where_the_pattern_names_them(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.csv").write_text("a\n")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "other.csv").symlink_to("real/a.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    assert Search().find(["**/*.csv"], str(tmp_path)) == [str(tmp_path / "real/a.csv")]
    assert Search().find(["link/*.csv"], str(tmp_path)) == [str(tmp_path / "link/a.csv")]
    assert files(tmp_path, "pipe.csv", "none.csv").look() == []


def test_a_link_that_is_named_leads_to_its_file_wherever_it_leads_next(tmp_path: Path) -> None:
    link = tmp_path / "latest.csv"
    link.symlink_to("one.csv")
    read = files(tmp_path, "latest.csv", "*.csv")
    append(tmp_path / "one.csv", "1\n")
    assert told(read.look()) == [("one.csv", "1")]
    link.unlink()
    link.symlink_to(tmp_path / "sub/two.csv")
    (tmp_path / "sub").mkdir()
    append(tmp_path / "sub/two.csv", "2\n")
    assert told(read.look()) == [("sub/two.csv", "2")]
    link.unlink()
    link.symlink_to("latest.csv")
    assert read.look() == read.end() == []


def test_a_search_ends_in_a_tree_that_is_too_large_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number:02d}.csv").touch()
    assert len(Search(5).find(["**/*.csv"], str(tmp_path))) <= 5
    whole = Search(20)
    assert len(whole.find(["*.csv"], str(tmp_path))) == 20
    assert not whole.is_cut
    monkeypatch.setattr(followed, "MOST_ENTRIES", 5)
    read = FollowedFiles(["*.csv"], str(tmp_path), 3, Redaction())
    what = (
        "--follow: only 5 files and folders are searched: write the folder of your files into the "
        "pattern"
    )
    assert read.begin() == [OutputText(AGENT, "stderr", what)]
    assert read.look() == read.end() == []


def test_more_files_than_can_be_followed_are_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "MOST_FILES", 2)
    read = files(tmp_path)
    for number in range(4):
        append(tmp_path / f"{number}.csv", f"{number}\n")
    texts = [event for event in read.look() if isinstance(event, OutputText)]
    assert [text.text for text in texts if text.path] == ["0", "1"]
    assert [text.rank for text in texts if not text.path] == [AGENT]
    assert read.look() == []


# What comes in them


def test_what_is_written_is_told_in_whole_lines(tmp_path: Path) -> None:
    read = files(tmp_path)
    path = tmp_path / "a.jsonl"
    append(path, "1\n2\n3")
    assert told(read.look()) == [("a.jsonl", "1\n2")]
    assert read.look() == []
    append(path, "4\n")
    assert told(read.look()) == [("a.jsonl", "34")]
    append(path, "5")
    assert told(read.end()) == [("a.jsonl", "5")]


def test_it_is_told_as_by_the_first_rank_of_the_host_and_with_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    read = files(folder, "../*.csv")
    append(tmp_path / "a.csv", "1\n")
    assert read.look() == [OutputText(3, f"file:{folder}/../a.csv", "1")]


def test_older_contents_are_not_told(tmp_path: Path) -> None:
    append(tmp_path / "old.jsonl", "old\n")
    append(tmp_path / "older.jsonl", "older\n")
    read = files(tmp_path)
    assert read.look() == []
    append(tmp_path / "old.jsonl", "new\n")
    assert told(read.look()) == [("old.jsonl", "new")]


def test_the_header_of_an_older_table_is_told_with_its_new_rows(tmp_path: Path) -> None:
    append(tmp_path / "old.csv", "step,loss\n1,2.5\n")
    read = files(tmp_path)
    append(tmp_path / "old.csv", "2,2.25\n")
    assert told(read.look()) == [("old.csv", "step,loss"), ("old.csv", "2,2.25")]


@pytest.mark.parametrize("there", ["", "step,", "step,loss"])
def test_the_header_of_a_table_that_had_none_yet_is_told_once(tmp_path: Path, there: str) -> None:
    append(tmp_path / "old.csv", there)
    read = files(tmp_path)
    append(tmp_path / "old.csv", f"{'step,loss'.removeprefix(there)}\n1,2.5\n")
    assert told(read.look()) == [("old.csv", "step,loss\n1,2.5")]


def test_a_file_that_is_cut_begins_anew(tmp_path: Path) -> None:
    read = files(tmp_path)
    path = tmp_path / "a.csv"
    append(path, "1\n2\n")
    read.look()
    path.write_text("3\n")
    assert told(read.look()) == [("a.csv", "3")]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_file_that_is_written_anew_and_longer_is_read_anew(tmp_path: Path, is_old: bool) -> None:
    path = tmp_path / "trainer_state.json"
    if is_old:
        path.write_text("{\n1\n}\n")
    read = files(tmp_path)
    if not is_old:
        path.write_text("{\n1\n}\n")
        assert told(read.look()) == [(path.name, "{\n1\n}")]
    path.write_text("{\n1\n2\n3\n}\n")
    assert told(read.look()) == [(path.name, "{\n1\n2\n3\n}")]


def test_a_file_that_is_replaced_is_read_to_its_end_and_the_new_one_from_its_beginning(
    tmp_path: Path,
) -> None:
    read = files(tmp_path)
    path = tmp_path / "a.log"
    append(path, "1\n")
    read.look()
    append(path, "2\n")
    path.rename(tmp_path / "a.log.1")
    append(path, "3\n")
    found = told(read.look()) + told(read.look())
    assert found == [("a.log", "2"), ("a.log", "3")]
    append(tmp_path / "a.log.1", "4\n")
    assert told(read.look()) == [("a.log.1", "4")]


def test_a_file_that_is_removed_is_forgotten(tmp_path: Path) -> None:
    read = files(tmp_path)
    path = tmp_path / "a.csv"
    append(path, "1\n")
    read.look()
    path.unlink()
    assert read.look() == []
    append(path, "1\n")
    assert told(read.look()) == [("a.csv", "1")]


def test_a_document_is_told_to_its_end_once_it_rests(tmp_path: Path) -> None:
    read = files(tmp_path)
    (tmp_path / "a.json").write_text('{\n"loss": 1\n}')
    assert told(read.look()) == [("a.json", '{\n"loss": 1')]
    assert told(read.look()) == [("a.json", "}")]
    assert read.look() == []


def test_a_large_file_takes_several_looks_and_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "MOST", 4 * CHUNK)
    read = files(tmp_path)
    line = "x" * 1023 + "\n"
    append(tmp_path / "a.log", line * 640)
    append(tmp_path / "b.log", "small\n")
    first = told(read.look())
    assert ("b.log", "small") in first
    rest = [text for _ in range(6) for text in told(read.look())]
    assert rest
    whole = "\n".join(text for path, text in first + rest if path == "a.log")
    assert whole == (line * 640).rstrip()
    assert all(len(text) <= CHUNK for _, text in first + rest)


def test_secrets_are_hidden_in_binary_files(tmp_path: Path) -> None:
    redaction = Redaction()
    redaction.learn([Placement(0, 0, (), (("KEY", "longsecret"),), ("KEY",))])
    frames = Frames(redaction)
    assert frames.feed(frame(b"a longsecret") + frame(b"open")) is not None
    lines = (Frames(redaction).feed(frame(b"a longsecret") + frame(b"open")) or "").split("\n")
    assert [b64decode(line) for line in lines] == [b"open"]


# Event files


def frame(data: bytes) -> bytes:
    length = len(data).to_bytes(8, "little")
    return b"".join(one + masked_crc(one).to_bytes(4, "little") for one in (length, data))


def test_records_of_event_files_are_lines_however_they_are_cut() -> None:
    records = [b"one", b"x" * (LONGEST + 1), b"", b"two", b"x" * 3 * LONGEST, b"three"]
    data = b"".join(map(frame, records)) + frame(b"torn")[:-5]
    for size in (1, 7, 1000, len(data)):
        frames = Frames(Redaction())
        blocks = [data[at : at + size] for at in range(0, len(data), size)]
        lines = [line for block in blocks if (line := frames.feed(block)) is not None]
        read = [b64decode(line) for line in "\n".join(lines).split("\n")]
        assert [record for record in read if record] == [b"one", b"two", b"three"]
        assert frames.end() is None


def test_the_checksum_is_that_of_event_files() -> None:
    assert masked_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) % 2**32


def test_what_is_no_event_file_is_left_and_said_once(tmp_path: Path) -> None:
    read = files(tmp_path)
    append(tmp_path / "a.tfevents", "this is a text and no event file")
    what = "--follow: a.tfevents: it is not an event file of TensorBoard, and is not read"
    assert read.look() == [OutputText(AGENT, "stderr", what)]
    append(tmp_path / "a.tfevents", "this is a text and no event file")
    assert read.look() == read.end() == []


def test_damaged_data_is_left_out_and_a_damaged_length_ends_the_file() -> None:
    damaged = frame(b"spoilt").replace(b"spoilt", b"spoiLt")
    frames = Frames(Redaction())
    lines = frames.feed(frame(b"one") + damaged + frame(b"two")) or ""
    assert [b64decode(line) for line in lines.split("\n")] == [b"one", b"two"]
    assert frames.problem == "damaged records are left out"
    assert frames.feed(bytes(12) + frame(b"three")) is None
    assert frames.problem == "it is damaged after 3 records, and its rest is not read"
    assert frames.feed(frame(b"four")) is None


# In the agent's loop


def test_turns_of_the_loop_take_what_the_turn_before_found(tmp_path: Path) -> None:
    reader = FileFollower(Redaction())
    assert reader.news() == reader.end() == []
    append(tmp_path / "a.csv", "old\n")
    reader.start(["*.csv"], str(tmp_path), 3)
    append(tmp_path / "b.csv", "1\n")
    assert told(reader.end()) == [("b.csv", "1")]
    append(tmp_path / "b.csv", "2\n")
    assert reader.news() == reader.end() == []


def test_a_disk_that_does_not_answer_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = threading.Event()
    monkeypatch.setattr(followed, "PATIENCE", 0.01)

    def look(_: FollowedFiles) -> list[Event]:
        answer.wait()
        return []

    monkeypatch.setattr(FollowedFiles, "look", look)
    reader = FileFollower(Redaction())
    reader.start(["*.csv"], str(tmp_path), 3)
    reader.news()
    try:
        assert reader.news() == reader.end() == []
    finally:
        answer.set()
