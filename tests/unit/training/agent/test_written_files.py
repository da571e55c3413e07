"""The files that a program has written, as its host finds them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from training.agent import written_files
from training.agent.find_files import matches
from training.agent.written_files import find_written


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def start_of_run() -> float:
    """A time after all files so far: the clock of files goes by ticks of some milliseconds."""
    time.sleep(0.02)
    return time.time() - 0.005


def test_what_came_since_is_found_and_what_was_there_is_not(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "data/a.bin", "old.pt", "copied/from.pt")
    since = start_of_run()
    write(tmp_path, "out/model-0.pt", "log.csv", "old.pt")
    shutil.copy2(tmp_path / "data/a.bin", tmp_path / "copied/to.pt")
    found = find_written(str(tmp_path), since, ())
    assert found.paths == ["copied/to.pt", "log.csv", "old.pt", "out/model-0.pt"]
    assert (found.count, found.is_cut) == (4, False)


def test_what_is_nobodys_result_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, ".git/index", "pkg/__pycache__/a.cpython-312.pyc", "b.pyc", "rb/runs/r/0/lock")
    write(tmp_path, "files/out.txt")
    os.symlink("files", tmp_path / "link")
    assert find_written(str(tmp_path), 0.0, [str(tmp_path / "rb")]).paths == ["files/out.txt"]


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, *(f"out/{number:02}" for number in range(30)), "strange\nname")
    found = find_written(str(tmp_path), 0.0, ())
    assert (len(found.paths), found.paths[0], found.count) == (20, "out/00", 31)
    assert "strange\nname" not in found.paths
    monkeypatch.setattr(written_files, "MOST_ENTRIES", 10)
    assert find_written(str(tmp_path), 0.0, ()).is_cut
    assert find_written(str(tmp_path), 0.0, (), seconds=0.0).is_cut
    assert find_written(str(tmp_path / "gone"), 0.0, ()).paths == []


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [
        ("out/*.pt", "out/a.pt", True),
        ("out/*.pt", "out/deep/a.pt", False),
        ("out", "out/deep/a.pt", True),
        ("./out/", "out/a.pt", True),
        ("**/*.pt", "a.pt", True),
        ("**/*.pt", "out/deep/a.pt", True),
        ("*.pt", "out/a.pt", False),
        ("o?t/[ab].pt", "out/b.pt", True),
        ("a", "b", False),
    ],
)
def test_a_pattern_means_files_and_all_in_its_folders(
    pattern: str, path: str, is_meant: bool
) -> None:
    assert matches(path, [pattern]) == is_meant
