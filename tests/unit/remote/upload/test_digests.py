"""Digests of uploaded files that are kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from remote.upload import digests as module
from remote.upload.digests import DigestCache
from training.transfer.entries import stamp_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "SETTLED", -(10**9))
    return tmp_path / "cache"


class Looked:
    """Counts the files that are read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> None:
        self.reads += 1


def looked(*paths: Path, save: bool = True) -> tuple[list[str], int]:
    """The digests of files, and how many of these were read."""
    digests, counted = DigestCache("p"), Looked()
    found = [digests.find(str(path), stamp_of(os.lstat(path)), counted.read) for path in paths]
    assert [size for size, _ in found] == [path.stat().st_size for path in paths]
    if save:
        digests.save()
    return [digest for _, digest in found], counted.reads


def of(*texts: str) -> list[str]:
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def test_only_files_that_have_changed_are_read_again(tmp_path: Path) -> None:
    (one := tmp_path / "one").write_text("1")
    (two := tmp_path / "two\udcff").write_text("2")
    assert looked(one, two, save=False) == (of("1", "2"), 2)
    assert looked(one, two) == (of("1", "2"), 2)
    assert looked(one, two) == (of("1", "2"), 0)
    state = one.stat()
    one.write_text("3")
    os.utime(one, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert looked(one, two) == (of("3", "2"), 1)
    assert looked(two) == (of("2"), 0)
    assert looked(one) == (of("3"), 1), "what is no longer uploaded is forgotten"


def test_a_file_that_has_just_been_written_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLED", 3600 * 10**9)
    (one := tmp_path / "one").write_text("1")
    assert looked(one) == looked(one) == (of("1"), 1)


@pytest.mark.parametrize("text", ["", "[1]", '{"PATH": 5}', '{"PATH": [1, 2]}', '{"PATH": []}'])
def test_a_cache_that_is_none_costs_time_only(tmp_path: Path, cache: Path, text: str) -> None:
    (one := tmp_path / "one").write_text("1")
    kept = cache / "rankboard" / "uploads" / "p.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(text.replace("PATH", str(one)))
    assert looked(one) == (of("1"), 1)
    assert looked(one) == (of("1"), 0)
    DigestCache("p").forget()
    assert not kept.exists()
    DigestCache("p").forget()


def test_no_cache_can_be_written(tmp_path: Path, cache: Path) -> None:
    (one := tmp_path / "one").write_text("1")
    cache.write_text("no folder")
    assert looked(one) == looked(one) == (of("1"), 1)
