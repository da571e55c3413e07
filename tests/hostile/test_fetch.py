"""What a host announces of its results: nothing is written elsewhere, and neither time, memory nor
the disk is used up."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from remote.limits import Limits
from remote.plan.plan import Plan
from remote.upload.files import FileTransfers
from tests.hostile.launcher import MIB, measured
from tests.hostile.values import ESCAPES
from tests.kit.scripted_hosts import End, Hosts, Play, acted
from training.agent import local_api
from training.job import Job
from training.wire.jsonl import dumps

DATA = b"weights"
SMALL = Limits(line=64 * 1024, answer=MIB, busy=1.5)


def entry(path: Any = "checkpoints/step-1/model.pt", **more: Any) -> dict[str, Any]:
    """What an honest host announces of a file."""
    digest = hashlib.sha256(DATA).hexdigest()
    return {
        "path": path,
        "size": len(DATA),
        "digest": digest,
        "executable": False,
        "link": "",
    } | more


def sends(entries: Any, *data: bytes, unread: Any = ()) -> Play:
    """An errand that announces these files, and whatever is asked for sends these bytes."""

    def play(end: End) -> None:
        said = (
            entries
            if isinstance(entries, bytes)
            else dumps({"entries": entries, "unread": unread}).encode(errors="surrogatepass")
        )
        end.send(said + b"\n")
        for _ in end.lines():
            for block in data or (DATA,):
                end.send(block)

    return play


def fetched(tmp_path: Path, play: Play) -> tuple[dict[int, str], Path]:
    """What went wrong with each host, and the run's directory."""
    hosts = Hosts(
        acted(lambda end, command: None, sends([entry()])), acted(lambda end, command: None, play)
    )
    plan = Plan("a-run", hosts.hosts, Job(checkpoint_every="1"))
    folder = tmp_path / "runs" / "a-run"
    folder.mkdir(parents=True)
    with measured() as growth:
        problems = FileTransfers(plan, hosts, lambda on, text: None, SMALL).fetch(folder, [0, 1])
    assert growth.bytes < 100 * MIB
    assert 0 not in problems, problems
    assert (folder / "hosts" / "node1" / "checkpoints" / "step-1" / "model.pt").read_bytes() == DATA
    return problems, folder


PATHS = [
    *(
        "../x",
        "/etc/x",
        "checkpoints/../../x",
        "..",
        ".",
        "",
        "a//b",
        "a/./b",
        "checkpoints/\0",
        "checkpoints/x/..",
        "\ud800",
    ),
    "checkpoints/" + "x" * 300,
    "checkpoints/" + "x/" * 40 + "y",
    "checkpoints/"
    + "x" * 200
    + "/"
    + "y" * 200
    + "/"
    + "z" * 200
    + "/"
    + "w" * 200
    + "/"
    + "v" * 230,
    "a/" * 3000 + "b",
    *(7, None, ["x"], {}),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path)[:24])
def test_no_path_leads_elsewhere(path: Any, tmp_path: Path) -> None:
    problems, folder = fetched(tmp_path, sends([entry(path)]))
    assert 1 in problems
    assert below(tmp_path) == below(folder)
    assert depth(folder) < 40
    assert local_api.folder_size(str(folder)) > 0


LINKS = ["/etc/passwd", "../../../x", "../" * 50, "x/../../../../y", "\0", ""]


@pytest.mark.parametrize("link", LINKS, ids=ascii)
def test_no_link_leads_elsewhere(link: str, tmp_path: Path) -> None:
    """Nor does a file behind one."""
    said = [entry("checkpoints/way", link=link, size=0), entry("checkpoints/way/x")]
    _, folder = fetched(tmp_path, sends(said))
    assert below(tmp_path) == below(folder)
    for path in folder.rglob("*"):
        assert path.resolve().is_relative_to(folder), path


ENTRIES: dict[str, Any] = {
    "none": None,
    "a number": 7,
    "a text": "x",
    "numbers": [1, 2, 3],
    "lists": [[]],
    "nothing": [{}],
    "a negative size": [entry(size=-1)],
    "a size beyond all": [entry(size=2**63)],
    "more than the disk has": [entry(size=10**15)],
    "another digest": [entry(digest="0" * 64)],
    "no digest": [entry(digest="")],
    "a long digest": [entry(digest="0" * 10_000)],
    "the same twice": [entry(), entry()],
    "a file, then a folder": [entry("checkpoints/x"), entry("checkpoints/x/y")],
    "a folder, then a file": [entry("checkpoints/x/y"), entry("checkpoints/x")],
    "escapes": [entry("checkpoints/" + ESCAPES.replace("\0", "").replace("\ud83d", ""))],
    "deep": b'{"entries":' + b"[" * 30_000,
    "bytes": bytes(range(32)) * 20,
    "a line without end": b'{"entries":[' + b"x" * 100_000,
    "10,000 files": [entry(f"checkpoints/{number}", size=10**12) for number in range(400)],
}


@pytest.mark.parametrize("case", ENTRIES)
def test_odd_lists_of_files(case: str, tmp_path: Path) -> None:
    problems, folder = fetched(tmp_path, sends(ENTRIES[case]))
    assert below(tmp_path) == below(folder)
    assert all("\x1b" not in problem for problem in problems.values())
    for path in folder.rglob("*"):
        assert not path.is_file() or path.stat().st_size <= len(DATA)


def busy_for_ever(end: End) -> None:
    """Says that it is busy, as often as it can, until it is given up."""
    until = time.monotonic() + 15
    while time.monotonic() < until:
        end.send(b'{"busy":""}\n')
        time.sleep(0.01)


def endless_line(end: End) -> None:
    end.send(b'{"entries":[')
    for _ in range(2000):
        end.send(b"[" * 65_536)


def more_than_announced(end: End) -> None:
    sends([entry()], DATA * 100_000)(end)


def fewer_than_announced(end: End) -> None:
    end.send(dumps({"entries": [entry(size=10**6)], "unread": []}).encode() + b"\n")
    next(end.lines())
    end.send(DATA)


def errors(end: End) -> None:
    end.send(dumps({"error": ESCAPES}).encode(errors="surrogatepass") + b"\n")


def unread_forever(end: End) -> None:
    sends([entry()], unread=[[ESCAPES, "x"]] * 500)(end)


def unread_that_is_none(end: End) -> None:
    sends([entry()], unread=[7, None])(end)


@pytest.mark.parametrize(
    "play",
    [
        *(
            busy_for_ever,
            endless_line,
            more_than_announced,
            fewer_than_announced,
            errors,
            unread_forever,
            unread_that_is_none,
        ),
        lambda end: None,
    ],
    ids=lambda play: play.__name__,
)
def test_a_fetch_ends(play: Play, tmp_path: Path) -> None:
    problems, folder = fetched(tmp_path, play)
    assert below(tmp_path) == below(folder)
    assert all(line.isprintable() for problem in problems.values() for line in problem.split("\n"))


def test_a_disk_is_not_filled_to_its_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would leave less than a share of it free is not begun."""
    real = os.fstatvfs

    def nearly_full(fd: int) -> os.statvfs_result:
        found = list(real(fd))
        block = found[1]
        found[2], found[3], found[4] = (
            10_000_000 // block,
            505_000 // block,
            505_000 // block,
        )  # 10 MB, of which 505 kB are free
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "fstatvfs", nearly_full)
    problems, folder = fetched(tmp_path, sends([entry(size=10_000)], b"x" * 10_000))
    assert 1 in problems
    assert not list((folder / "hosts").glob("node2/**/model.pt"))


def below(folder: Path) -> list[Path]:
    """All files."""
    return sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def depth(folder: Path) -> int:
    return max((len(path.relative_to(folder).parts) for path in folder.rglob("*")), default=0)
