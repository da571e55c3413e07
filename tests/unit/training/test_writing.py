"""What is written is for its owner only, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.writing import make_private_folders, write_synced


@pytest.fixture
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("_no_umask")
def test_missing_folders_are_made_for_their_owner_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folders(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)
    assert mode(tmp_path) == 0o755, "what is there stays as it is"
    make_private_folders(tmp_path / "a" / "b")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="file"):
            make_private_folders(path)


@pytest.mark.usefixtures("_no_umask")
def test_a_file_that_survives_a_power_cut_is_for_its_owner_only(tmp_path: Path) -> None:
    assert write_synced(tmp_path / "own", lambda file: file.write(b"x")) == 1
    write_synced(tmp_path / "shared", lambda file: file.write(b"x"), mode=0o666)
    assert (mode(tmp_path / "own"), mode(tmp_path / "shared")) == (0o600, 0o666)
