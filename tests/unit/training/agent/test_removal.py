"""What may be removed from a host, and what never is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from training.agent.host_commands import removal, run_folders
from training.agent.host_commands.removal import hold_lock, remove
from training.agent.journal import Journal
from training.agent.layout import LOCK
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded, OutputText


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """An ended run of two hosts with a checkpoint, code, and something precious beside them."""
    workdir = tmp_path / "work"
    for index in (0, 1):
        folder = workdir / "runs" / "a-run" / str(index)
        (folder / "checkpoints" / "step-7").mkdir(parents=True)
        (folder / "checkpoints" / "step-7" / "rank-0.pt").write_bytes(b"x" * 10_000)
        Journal(str(folder), index).write(
            1, [OutputText(0, "stdout", "hello"), AgentEnded(EndReason.CLOSED)]
        )
    (workdir / "code" / "old").mkdir(parents=True)
    os.utime(workdir / "code" / "old", (0, 0))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    return workdir


def kept(workdir: Path, *names: str) -> dict[str, str]:
    """Why each is still there, "" for what is gone."""
    return {one["name"]: one["kept"] for one in remove(str(workdir), *names)}


def test_an_ended_run_goes_host_by_host(workdir: Path) -> None:
    assert kept(workdir, "runs/a-run/0") == {"runs/a-run/0": ""}
    assert list(run_folders.list_run_folders(str(workdir))) == [("a-run", 1)]
    assert kept(workdir, "runs/a-run/1", "code/old") == {"runs/a-run/1": "", "code/old": ""}
    assert not any((workdir / "runs").iterdir())
    assert not any((workdir / "code").iterdir())


def test_a_live_run_stays_and_so_does_code(workdir: Path) -> None:
    with hold_lock(str(workdir / "runs" / "a-run" / "0")):
        found = kept(workdir, "runs/a-run/0", "runs/a-run/1", "code/old")
    assert found == {
        "runs/a-run/0": "it is live",
        "runs/a-run/1": "",
        "code/old": "a run uses it, or may",
    }
    assert (workdir / "runs" / "a-run" / "0" / "checkpoints" / "step-7" / "rank-0.pt").exists()
    assert (workdir / "code" / "old").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../precious",
        "runs/../../precious",
        "runs/../1",
        "runs/a-run",
        "runs/a-run/..",
        "runs/a-run/2",
        "runs//0",
        "/etc",
        "code/..",
        "",
    ],
)
def test_what_is_no_run_is_not_touched(name: str, workdir: Path) -> None:
    assert all(kept(workdir, name).values())
    assert (workdir.parent / "precious" / "file").read_text() == "precious"
    assert len(list(run_folders.list_run_folders(str(workdir)))) == 2


def test_links_are_not_followed(workdir: Path) -> None:
    precious = workdir.parent / "precious"
    (precious / "0").mkdir()
    (workdir / "runs" / "linked").symlink_to(precious)
    (workdir / "runs" / "a-run" / "7").symlink_to(precious)
    (workdir / "code" / "linked").symlink_to(precious)
    (workdir / "runs" / "a-run" / "0" / "checkpoints" / "inside").symlink_to(precious)
    found = kept(workdir, "runs/linked/0", "runs/a-run/7", "code/linked", "runs/a-run/0")
    assert found == {
        "runs/linked/0": "no such folder, or a link",
        "runs/a-run/7": "no such folder, or a link",
        "code/linked": "a run uses it, or may",
        "runs/a-run/0": "",
    }
    assert sorted(path.name for path in precious.iterdir()) == ["0", "file"]


def test_a_lock_that_is_a_link_is_not_opened(workdir: Path) -> None:
    lock = workdir / "runs" / "a-run" / "0" / LOCK
    lock.symlink_to(workdir.parent / "new")
    assert kept(workdir, "runs/a-run/0")["runs/a-run/0"]
    assert not (workdir.parent / "new").exists()


def test_what_an_interrupted_removal_has_left_goes_with_the_next(workdir: Path) -> None:
    (workdir / "runs" / ".removed-1-2" / "checkpoints").mkdir(parents=True)
    assert list(run_folders.list_run_folders(str(workdir))) == [("a-run", 0), ("a-run", 1)]
    kept(workdir, "runs/a-run/0")
    assert [path.name for path in (workdir / "runs").iterdir()] == ["a-run"]


def test_a_folder_of_any_depth_is_measured_and_removed(tmp_path: Path) -> None:
    """Deeper than Python's recursion and than a path may be long."""
    deep = tmp_path / ".removed-1"
    deep.mkdir()
    here = os.open(deep, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("folder", dir_fd=here)
        inner = os.open("folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    (deep / "link").symlink_to(tmp_path)
    (tmp_path / "beside").mkdir()
    assert run_folders.folder_size(str(tmp_path)) > 0
    removal.finish_removals(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["beside"]
