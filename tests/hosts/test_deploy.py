"""The archive of the code, the program that puts it on a host, and what it says."""

from __future__ import annotations

import ast
import base64
import json
import os
import py_compile
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import cache_from_source
from io import BytesIO
from pathlib import Path

import pytest

from remote.limits import LIMITS
from remote.transport.bootstrap.archive import Archive, build_archive
from remote.transport.bootstrap.command import build_start_command
from remote.transport.failure import Failure, FailureCause
from remote.transport.start_dialog import (
    QUOTED,
    AgentReady,
    CodeChanged,
    CodeNeeded,
    CodePlaced,
    DialogStep,
    ShellNoise,
    StartDialog,
    StartFailed,
    is_echo,
    last_line,
    quote_output,
)
from tests.kit.standin import AGENT, AN_AGENT, package

STATE = "checked.state"
"""The file of the unpacked code by which later starts know that nothing has changed."""


def steps(*chunks: bytes) -> list[DialogStep]:
    talk = StartDialog()
    return [step for chunk in chunks for step in talk.feed(chunk)]


def test_archive_depends_on_contents_only(tmp_path: Path) -> None:
    first, second = package(tmp_path / "a"), package(tmp_path / "b")
    os.utime(second / "__init__.py", (1, 1))
    (second / "__init__.py").chmod(0o755)
    (second / "__pycache__").mkdir()
    (second / "__pycache__" / "x.pyc").write_bytes(b"1")
    (second / ".hidden").write_text("1")
    assert build_archive(first) == build_archive(second)
    changed = package(tmp_path / "c", AGENT + "\n")
    assert build_archive(changed).digest != build_archive(first).digest


def test_archive_holds_code_and_data_of_the_real_package() -> None:
    names = zipfile.ZipFile(BytesIO(build_archive().data)).namelist()
    assert build_archive().count == len(names)
    assert {"training/__init__.py", "training/agent/__main__.py", "training/wire/events.py"} <= set(
        names
    )
    assert names == sorted(names, key=Path)
    assert not [name for name in names if "__pycache__" in name]
    assert build_archive() is build_archive()


LINES = b"rankboard-deploy 1 need\nrankboard-deploy 1 have\nrankboard-agent 1\n{...}\n{.."


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_talk_in_pieces_of_any_size(size: int) -> None:
    said = b"Welcome!\r\n\nno newline: " + LINES
    pieces = [said[i : i + size] for i in range(0, len(said), size)]
    talk, found, rest = StartDialog(), list[DialogStep](), b""
    for piece in pieces:
        if any(isinstance(step, AgentReady) for step in found):
            rest += piece
        else:
            found += talk.feed(piece)
    assert found[:4] == [
        ShellNoise("Welcome!"),
        ShellNoise("no newline:"),
        CodeNeeded(),
        CodePlaced(),
    ]
    (ready,) = found[4:]
    assert isinstance(ready, AgentReady)
    assert ready.rest + rest == b"{...}\n{.."


def test_talk_knows_errors_and_noise_before_the_agents_marker() -> None:
    said = b'rankboard-deploy 1 error workdir ["no space", "make room"]\n'
    assert steps(said) == [StartFailed(Failure(FailureCause.WORKDIR, "no space", "make room"))]
    for words in ("dance", "error workdir no space", 'error dance ["a", "b"]', "error code [1, 2]"):
        what = f"its start said {words!r}, which this version does not expect"
        unexpected = StartFailed(Failure(FailureCause.OTHER, what))
        assert steps(f"rankboard-deploy 1 {words}\n".encode()) == [unexpected]
    assert steps(b"\x1b[2J$ rankboard-agent 1\n") == [ShellNoise("$"), AgentReady(b"")]
    assert steps(b"rankboard-deploy 1 changed /w/code/x\n") == [CodeChanged("/w/code/x")]
    assert steps(b"only noise") == []


def told(said: list[DialogStep]) -> str:
    """The text of the failure with which a start ends."""
    assert isinstance(said[-1], StartFailed), said
    return said[-1].failure.text


def start(command: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe)


def talk(command: str, data: bytes) -> tuple[int, list[DialogStep], str]:
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=data, capture_output=True, check=False, timeout=30
    )
    return done.returncode, steps(done.stdout), done.stderr.decode()


def unpacked(workdir: Path, code: Archive) -> Path:
    """The folder of the code, as this Python runs it."""
    return workdir / "code" / f"{code.digest}-{sys.implementation.cache_tag}-{sys.flags.optimize}"


@pytest.fixture
def code(tmp_path: Path) -> Archive:
    return build_archive(package(tmp_path))


@pytest.fixture
def command(tmp_path: Path, code: Archive) -> Callable[[str], str]:
    """The command for a work folder below tmp_path."""
    return lambda workdir: build_start_command(
        sys.executable, str(tmp_path / workdir), code, AN_AGENT.argv()
    )


def test_first_start_unpacks_the_second_does_not(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    workdir = 'a "w" $HOME\'s `x` !y'
    status, first, _ = talk(command(workdir), code.data + b"one\n")
    assert (status, first[:2]) == (0, [CodeNeeded(), CodePlaced()])
    assert isinstance(first[2], AgentReady)
    assert b"echo one\n" in first[2].rest
    folder = unpacked(tmp_path / workdir, code)
    before = folder.stat()
    status, second, _ = talk(command(workdir), b"two\n")
    assert (status, second[0]) == (0, CodePlaced())
    assert folder.stat().st_ino == before.st_ino
    assert os.listdir(folder.parent) == [folder.name]
    for path in (folder, folder.parent, tmp_path / workdir, folder / "training"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_home_stands_for_the_far_home(
    tmp_path: Path, code: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my python").symlink_to(sys.executable)
    status, said, errors = talk(build_start_command("~/my python", "~/work", code, ()), code.data)
    assert (status, said[0], errors) == (0, CodeNeeded(), "")
    assert (unpacked(tmp_path / "work", code) / "training" / "__init__.py").is_file()


def test_damaged_archive_is_refused(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    middle = len(code.data) // 2
    damaged = code.data[:middle] + bytes([code.data[middle] ^ 1]) + code.data[middle + 1 :]
    status, said, _ = talk(command("work"), damaged)
    assert (status, said[0]) == (3, CodeNeeded())
    assert "damaged, nothing was unpacked" in told(said)
    assert os.listdir(tmp_path / "work" / "code") == []


def test_archive_that_breaks_off_is_refused(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    status, said, _ = talk(command("work"), code.data[:-1])
    assert status == 3
    assert "the connection broke" in told(said)
    assert os.listdir(tmp_path / "work" / "code") == []


def test_several_launchers_at_once(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    processes = [start(command("work")) for _ in range(4)]
    needing = 0
    for (
        process
    ) in processes:  # all have found that the code is not there before the first one sends it
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
        assert steps(out)[0] == CodePlaced()
    assert os.listdir(tmp_path / "work" / "code") == [unpacked(tmp_path / "work", code).name]


UNLOCKED = """
import fcntl, os, tempfile, time
def flock(*_): raise OSError("no locks here")
make, rename = tempfile.mkdtemp, os.rename
def mkdtemp(**given):
    made = make(**given)
    if given["prefix"] == "new-":  # all have found that the code is not there
        os.close(os.open(os.environ["MET"] + "/" + str(os.getpid()), os.O_CREAT | os.O_WRONLY))
        while len(os.listdir(os.environ["MET"])) < 4: time.sleep(0.01)
    return made
def renamed(old, new):
    rename(old, new)
    with open(os.environ["MET"] + ".log", "a") as file: file.write(new + "\\n")
fcntl.flock, tempfile.mkdtemp, os.rename = flock, mkdtemp, renamed
"""


def test_several_hosts_at_once_on_a_shared_disk_without_locks_do_not_replace_code_in_use(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNLOCKED)
    (met := tmp_path / "met").mkdir()
    processes = [
        start(f"export MET='{met}' PYTHONPATH='{tmp_path}'; {command('work')}") for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(code.data)
        process.stdin.flush()
    for process in processes:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, err, steps(out)[1]) == (0, b"", CodePlaced())
    folder = unpacked(tmp_path / "work", code)
    assert (tmp_path / "met.log").read_text().split() == [str(folder)]
    assert os.listdir(folder.parent) == [folder.name]


def test_a_folder_whose_acl_lets_a_group_write_is_no_hindrance(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    everybody = 0xFFFFFFFF
    entries = (
        (1, 7, everybody),
        (4, 7, everybody),
        (8, 7, 0),
        (16, 7, everybody),
        (32, 5, everybody),
    )  # group 0 may write
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(tmp_path, "system.posix_acl_default", acl)
    except (OSError, AttributeError):
        pytest.skip("no access control lists here")
    for data in (code.data, b""):
        status, said, _ = talk(command("work"), data)
        assert (status, isinstance(said[-1], AgentReady)) == (0, True), said


def test_what_another_python_compiled_beside_it_is_no_change(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    """As a user's script does that runs under another Python and imports our sitecustomize."""
    talk(command("work"), code.data)
    cache = unpacked(tmp_path / "work", code) / "training" / "__pycache__"
    (cache / "__init__.cpython-399.pyc").write_bytes(b"")
    (cache / f"__init__.{sys.implementation.cache_tag}.opt-1.pyc").write_bytes(b"")
    assert talk(command("work"), b"")[1][0] == CodePlaced()
    (cache.parent / "sourceless.cpython-399.pyc").write_bytes(b"")
    assert talk(command("work"), code.data)[1][0] == CodeNeeded()


def test_workdir_that_cannot_be_used(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    (tmp_path / "file").write_text("")
    status, said, _ = talk(command("file"), code.data)
    assert status == 3
    assert f"cannot use its workdir {tmp_path}/file: " in told(said)
    assert "set another workdir" in told(said)


def test_old_python_says_so(tmp_path: Path, code: Archive) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.version_info = (3, 6, 9, 'final', 0)\n"
    )
    command = build_start_command(sys.executable, str(tmp_path / "work"), code, ())
    status, said, _ = talk(f"PYTHONPATH='{tmp_path}' {command}", b"")
    assert status == 3
    assert "is 3.6.9, which is older than 3.10; set python = " in told(said)
    assert not (tmp_path / "work").exists()


def test_a_package_called_training_in_the_way_is_not_taken(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    other = package(tmp_path / "other", "raise SystemExit('the wrong one')")
    status, said, errors = talk(
        f"cd '{other.parent}' && PYTHONPATH='{other.parent}' {command('work')}", code.data
    )
    assert (status, errors) == (0, "")
    assert isinstance(said[-1], AgentReady)


def test_last_line_of_a_traceback() -> None:
    assert last_line("Traceback\n  File\nValueError: no\n\n") == "ValueError: no"
    assert last_line("") == ""


# Code is run only as it was sent ------------------------------------------------------------------

HOSTILE = "def main(argv):\n    print('HOSTILE', flush=True)\n    return 0\n"


def edit_source(folder: Path) -> None:
    (folder / "training" / "agent" / "__main__.py").write_text(HOSTILE)


def edit_compiled(folder: Path) -> None:
    """As Python itself would find it fitting: for this very source."""
    source = folder / "training" / "agent" / "__main__.py"
    hostile = folder.parent / "hostile.py"
    hostile.write_text(HOSTILE)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(
        str(hostile), cache_from_source(str(source)), doraise=True, invalidation_mode=mode
    )
    hostile.unlink()


def edit_compiled_and_seal(folder: Path) -> None:
    edit_compiled(folder)
    (folder / "compiled.digest").write_text("0" * 32)


def add_module(folder: Path) -> None:
    """One that comes before Python's own, in the first folder of sys.path."""
    (folder / "random.py").write_text("print('HOSTILE', flush=True)")
    (folder / "json").mkdir()
    (folder / "json" / "__init__.py").write_text("print('HOSTILE', flush=True)")


def link_module(folder: Path) -> None:
    elsewhere = folder.parent.parent / "elsewhere.py"
    source = folder / "training" / "agent" / "__main__.py"
    source.rename(elsewhere)
    source.symlink_to(elsewhere)


def let_others_write(folder: Path) -> None:
    (folder / "training" / "agent" / "__main__.py").chmod(0o666)


def let_others_write_the_folder(folder: Path) -> None:
    (folder / "training").chmod(0o777)


def leave_one_out(folder: Path) -> None:
    (folder / "training" / "agent" / "__init__.py").unlink()


def put_a_link_in_its_place(folder: Path) -> None:
    folder.rename(folder.parent.parent / "moved")
    folder.symlink_to(folder.parent.parent / "moved")


TAMPERED = [
    edit_source,
    edit_compiled,
    edit_compiled_and_seal,
    add_module,
    link_module,
    let_others_write,
    let_others_write_the_folder,
    leave_one_out,
    put_a_link_in_its_place,
]


KEEPS_STATE, READS_ALL = 0, 3600
"""Seconds without a change, see `build_start_command`: by these each start keeps the state
of the files, or reads all of them."""


@pytest.mark.parametrize("settled", [KEEPS_STATE, READS_ALL])
@pytest.mark.parametrize("tamper", TAMPERED)
def test_code_that_is_not_as_it_was_sent_is_replaced_and_never_run(
    tamper: Callable[[Path], None], settled: int, tmp_path: Path, code: Archive
) -> None:
    folder = unpacked(tmp_path / "work", code)
    command = build_start_command(
        sys.executable, str(tmp_path / "work"), code, AN_AGENT.argv(), settled
    )
    assert talk(command, code.data)[0] == 0
    assert (folder / STATE).exists() == (settled == KEEPS_STATE)
    tamper(folder)
    status, said, errors = talk(command, code.data + b"one\n")
    assert (status, said[:3], errors) == (
        0,
        [CodeNeeded(), CodeChanged(str(folder)), CodePlaced()],
        "",
    )
    assert isinstance(said[3], AgentReady)
    assert said[3].rest.endswith(b"echo one\n")
    assert b"HOSTILE" not in said[3].rest
    status, said, _ = talk(command, b"two\n")
    assert said[0] == CodePlaced()
    assert os.listdir(folder.parent) == [folder.name]


def test_files_of_a_state_that_was_kept_are_not_compared_again(
    tmp_path: Path, code: Archive
) -> None:
    """Each comparison of all files makes the file of their state anew."""
    command = build_start_command(
        sys.executable, str(tmp_path / "work"), code, AN_AGENT.argv(), KEEPS_STATE
    )
    talk(command, code.data)
    kept = unpacked(tmp_path / "work", code) / STATE
    state, number = kept.read_text(), kept.stat().st_ino
    assert talk(command, b"")[1][0] == CodePlaced()
    assert kept.stat().st_ino == number
    kept.write_text("another")
    assert talk(command, b"")[1][0] == CodePlaced()
    assert kept.read_text() == state


def test_the_facts_of_a_host_say_that_its_code_was_changed(tmp_path: Path) -> None:
    """The real code and its errand, as the doctor starts it."""
    words = ("check", str(tmp_path / "run"), "", "")
    found = []
    for change in (None, edit_source, None):
        if change:
            change(unpacked(tmp_path / "work", build_archive()))
        command = build_start_command(
            sys.executable, str(tmp_path / "work"), build_archive(), words
        )
        data = b"" if found and not change else build_archive().data
        (said,) = (
            step
            for step in talk(command, data + b'{"command":"close"}\n')[1]
            if isinstance(step, AgentReady)
        )
        found.append(json.loads(said.rest.partition(b"\n")[0])["code_changed"])
    assert found == [False, True, False]


def test_what_was_compiled_is_used_and_stays_as_it_is(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    talk(command("work"), code.data)
    folder = unpacked(tmp_path / "work", code)
    compiled = sorted(path.relative_to(folder) for path in folder.rglob("*.pyc"))
    assert [path.name.partition(".")[0] for path in compiled] == [
        "__init__",
        "__init__",
        "__main__",
    ][: len(compiled)]
    before = {path: (folder / path).stat().st_mtime_ns for path in compiled}
    status, said, _ = talk(f"PYTHONPYCACHEPREFIX={tmp_path}/elsewhere {command('work')}", b"")
    assert (status, said[0]) == (0, CodePlaced())
    assert before == {
        path: (folder / path).stat().st_mtime_ns
        for path in sorted(folder.rglob("*.pyc"))
        for path in [path.relative_to(folder)]
    }
    assert not [
        path for path in (tmp_path / "elsewhere").rglob("*.pyc") if "training" in path.parts
    ]


@pytest.mark.parametrize(("inner", "mode"), [("", 0o777), ("", 0o702), ("code", 0o777)])
def test_a_workdir_that_others_may_write_is_refused(
    inner: str, mode: int, tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    talk(command("work"), code.data)
    folder = tmp_path / "work" / inner
    folder.chmod(mode)
    status, said, _ = talk(command("work"), code.data)
    place = str(folder).rstrip("/")
    why = (
        f"its code is not run: other users may write {place} (mode {mode:o}); chmod go-w {place} "
        "there, or set another"
    )
    assert (status, why in told(said)) == (3, True), said
    folder.chmod(0o755)
    assert talk(command("work"), b"")[1][0] == CodePlaced()


def test_a_folder_above_that_any_user_may_write_is_refused_unless_it_is_sticky(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    status, said, _ = talk(command("shared/work"), code.data)
    assert status == 3
    assert (
        f"its code is not run: any user may write {tmp_path}/shared, in which its workdir lies; "
        "chmod o-w" in told(said)
    )
    (tmp_path / "shared").chmod(0o1777)
    assert talk(command("shared/work"), code.data)[0] == 0


def test_a_workdir_of_another_user_is_refused(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a folder away")
    for name, change in (("theirs", "theirs"), ("mine", "mine/code"), ("grouped", "grouped")):
        (tmp_path / name / "code").mkdir(parents=True)
        os.chown(tmp_path / change, 0 if name == "grouped" else 12345, 12345)
    (tmp_path / "grouped").chmod(0o770)
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    os.lchown(tmp_path / "link", 12345, 12345)
    (tmp_path / "own").symlink_to("target")
    found = {
        name: talk(command(name), code.data)[1]
        for name in ("theirs", "mine", "grouped", "link", "own")
    }
    assert (
        f"{tmp_path}/theirs belongs to user 12345, and it runs as user 0 (root); set another "
        "workdir" in told(found["theirs"])
    )
    assert f"{tmp_path}/mine/code belongs to user 12345" in told(found["mine"])
    assert f"other users may write {tmp_path}/grouped (mode 770)" in told(found["grouped"])
    assert f"the link {tmp_path}/link belongs to user 12345" in told(found["link"])
    assert found["own"][:2] == [CodeNeeded(), CodePlaced()]
    os.chown(tmp_path / "grouped", 0, 0)  # the user's own group, with nobody else in it
    assert talk(command("grouped"), code.data)[1][0] == CodeNeeded()


def test_the_code_of_another_user_is_replaced(
    tmp_path: Path, code: Archive, command: Callable[[str], str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    talk(command("work"), code.data)
    for name in ("training/agent/__init__.py", "training"):
        os.chown(unpacked(tmp_path / "work", code) / name, 12345, -1)
        assert isinstance(talk(command("work"), code.data)[1][1], CodeChanged)
        assert talk(command("work"), b"")[1][0] == CodePlaced()


# What a host says before anything is started ------------------------------------------------------


def test_the_code_is_sent_once_per_connection() -> None:
    said = b"rankboard-deploy 1 need\n"
    assert steps(said, said) == [
        CodeNeeded(),
        StartFailed(
            Failure(FailureCause.OTHER, "its start said 'need', which this version does not expect")
        ),
    ]


@pytest.mark.parametrize("block", [b"x" * 1000, b"x" * 99 + b"\n"])
def test_a_login_shell_that_never_stops_is_given_up(block: bytes) -> None:
    talk = StartDialog(replace(LIMITS, banner=10_000))
    found = [step for _ in range(10_000 // len(block) + 1) for step in talk.feed(block)]
    (failed,) = (step for step in found if isinstance(step, StartFailed))
    assert failed is found[-1]
    assert failed.failure.what.startswith(
        "its login shell, or its python, printed more than 9.8 KiB before anything"
    )
    assert all(isinstance(step, ShellNoise) for step in found[:-1])


def test_quotes_are_short_and_without_the_program(code: Archive) -> None:
    command = build_start_command("python3", "~/w", code, ())
    said = f"ls: cannot access '{command}': No such file\n\x1b[31m"
    assert quote_output(said).startswith("ls: cannot access 'python3 -c ")
    assert len(quote_output(said)) < 120
    assert len(quote_output("é" * 1000)) == QUOTED
    assert is_echo(said)
    assert is_echo(said[-4096:])
    assert not is_echo("This account is currently not available." * 30)


def test_program_parses_under_old_pythons(code: Archive) -> None:
    encoded = build_start_command("python3", "~/w", code, ()).split('"')[1]
    source = base64.b64decode(encoded).decode()
    program = ast.parse(source, feature_version=(3, 6))
    assert source.isascii()
    constants = {
        ast.unparse(statement.targets[0]): ast.literal_eval(statement.value)
        for statement in program.body
        if isinstance(statement, ast.Assign)
    }
    assert "def unpack(" in constants["REST"]
    ast.parse(constants["REST"], feature_version=(3, 6))
