"""The archive of the code, the program that puts it on a host, and what it says."""

from __future__ import annotations

import ast
import base64
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from standin import AGENT, AN_AGENT, package

from remote.deploy import (
    Archive,
    Failed,
    Needed,
    Noise,
    Placed,
    Ready,
    Talk,
    archive,
    bootstrap,
    last_line,
)

Step = Noise | Needed | Placed | Failed | Ready


def steps(*chunks: bytes) -> list[Step]:
    talk = Talk()
    return [step for chunk in chunks for step in talk.feed(chunk)]


def test_archive_depends_on_contents_only(tmp_path: Path) -> None:
    first, second = package(tmp_path / "a"), package(tmp_path / "b")
    os.utime(second / "__init__.py", (1, 1))
    (second / "__init__.py").chmod(0o755)
    (second / "__pycache__").mkdir()
    (second / "__pycache__" / "x.pyc").write_bytes(b"1")
    (second / ".hidden").write_text("1")
    assert archive(first) == archive(second)
    changed = package(tmp_path / "c", AGENT + "\n")
    assert archive(changed).digest != archive(first).digest


def test_archive_holds_code_and_data_of_the_real_package() -> None:
    names = zipfile.ZipFile(BytesIO(archive().data)).namelist()
    assert {"training/__init__.py", "training/agent/__main__.py", "training/events.py"} <= set(names)
    assert names == sorted(names, key=Path)
    assert not [name for name in names if "__pycache__" in name]
    assert archive() is archive()


LINES = b"rankboard-deploy 1 need\nrankboard-deploy 1 have\nrankboard-agent 1\n{...}\n{.."


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_talk_in_pieces_of_any_size(size: int) -> None:
    said = b"Welcome!\r\n\nno newline: " + LINES
    pieces = [said[i : i + size] for i in range(0, len(said), size)]
    talk, found, rest = Talk(), list[Step](), b""
    for piece in pieces:
        if any(isinstance(step, Ready) for step in found):
            rest += piece
        else:
            found += talk.feed(piece)
    assert found[:4] == [Noise("Welcome!"), Noise("no newline: "), Needed(), Placed()]
    (ready,) = found[4:]
    assert isinstance(ready, Ready)
    assert ready.rest + rest == b"{...}\n{.."


def test_talk_knows_errors_and_noise_before_the_agents_marker() -> None:
    assert steps(b"rankboard-deploy 1 error no space\n") == [Failed("no space")]
    assert steps(b"rankboard-deploy 1 dance\n") == [
        Failed("its start said 'dance', which this version does not know"),
    ]
    assert steps(b"\x1b[2Jrankboard-agent 1\n") == [Noise("\x1b[2J"), Ready(b"")]
    assert steps(b"only noise") == []


def start(command: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe)


def talk(command: str, data: bytes) -> tuple[int, list[Step], str]:
    done = subprocess.run(["/bin/sh", "-c", command], input=data, capture_output=True, check=False, timeout=30)
    return done.returncode, steps(done.stdout), done.stderr.decode()


@pytest.fixture
def code(tmp_path: Path) -> Archive:
    return archive(package(tmp_path))


@pytest.fixture
def command(tmp_path: Path, code: Archive) -> Callable[[str], str]:
    """The command for a work folder below tmp_path."""
    return lambda workdir: bootstrap(sys.executable, str(tmp_path / workdir), code, AN_AGENT.argv())


def test_first_start_unpacks_the_second_does_not(tmp_path: Path, code: Archive, command: Callable[[str], str]) -> None:
    workdir = 'a "w" $HOME\'s `x` !y'
    status, first, _ = talk(command(workdir), code.data + b"one\n")
    assert (status, first[:2]) == (0, [Needed(), Placed()])
    assert isinstance(first[2], Ready)
    assert b"echo one\n" in first[2].rest
    folder = tmp_path / workdir / "code" / code.digest
    before = folder.stat()
    status, second, _ = talk(command(workdir), b"two\n")
    assert (status, second[0]) == (0, Placed())
    assert folder.stat().st_ino == before.st_ino
    assert os.listdir(folder.parent) == [code.digest]
    for path in (folder, folder.parent, tmp_path / workdir, folder / "training"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_home_stands_for_the_far_home(tmp_path: Path, code: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my python").symlink_to(sys.executable)
    status, said, errors = talk(bootstrap("~/my python", "~/work", code, ()), code.data)
    assert (status, said[0], errors) == (0, Needed(), "")
    assert (tmp_path / "work" / "code" / code.digest / "training" / "__init__.py").is_file()


def test_damaged_archive_is_refused(tmp_path: Path, code: Archive, command: Callable[[str], str]) -> None:
    damaged = code.data[:-1] + bytes([code.data[-1] ^ 1])
    status, said, _ = talk(command("work"), damaged)
    assert (status, said[0]) == (3, Needed())
    assert "damaged, nothing was unpacked" in str(said[1])
    assert os.listdir(tmp_path / "work" / "code") == []


def test_archive_that_breaks_off_is_refused(tmp_path: Path, code: Archive, command: Callable[[str], str]) -> None:
    status, said, _ = talk(command("work"), code.data[:-1])
    assert status == 3
    assert "the line broke" in str(said[1])
    assert os.listdir(tmp_path / "work" / "code") == []


def test_several_launchers_at_once(tmp_path: Path, code: Archive, command: Callable[[str], str]) -> None:
    processes = [start(command("work")) for _ in range(4)]
    needing = 0
    for process in processes:  # all have found that the code is not there before the first one sends it
        assert process.stdout is not None
        needing += process.stdout.readline() == b"rankboard-deploy 1 need\n"
    assert needing == 4
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(code.data)
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, b"")
        assert steps(out)[0] == Placed()
    assert os.listdir(tmp_path / "work" / "code") == [code.digest]


def test_workdir_that_cannot_be_used(tmp_path: Path, code: Archive, command: Callable[[str], str]) -> None:
    (tmp_path / "file").write_text("")
    status, said, _ = talk(command("file"), code.data)
    assert status == 3
    assert f"cannot use its workdir {tmp_path}/file: " in str(said[0])
    assert "set another workdir" in str(said[0])


def test_old_python_says_so(tmp_path: Path, code: Archive) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 6, 9, 'final', 0)\n")
    command = bootstrap(sys.executable, str(tmp_path / "work"), code, ())
    status, said, _ = talk(f"PYTHONPATH='{tmp_path}' {command}", b"")
    assert status == 3
    assert "is 3.6.9, which is older than 3.10; set python = " in str(said[0])
    assert not (tmp_path / "work").exists()


def test_a_package_called_training_in_the_way_is_not_taken(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    other = package(tmp_path / "other", "raise SystemExit('the wrong one')")
    status, said, errors = talk(f"cd '{other.parent}' && PYTHONPATH='{other.parent}' {command('work')}", code.data)
    assert (status, errors) == (0, "")
    assert isinstance(said[-1], Ready)


def test_last_line_of_a_traceback() -> None:
    assert last_line("Traceback\n  File\nValueError: no\n\n") == "ValueError: no"
    assert last_line("") == ""


def test_program_parses_under_old_pythons(code: Archive) -> None:
    encoded = bootstrap("python3", "~/w", code, ()).split('"')[1]
    source = base64.b64decode(encoded).decode()
    ast.parse(source, feature_version=(3, 6))
    assert source.isascii()
