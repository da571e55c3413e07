"""Files on their way to real hosts over a real sshd, and back; what .gitignore leaves out; names
that are hostile."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import LOCAL, Host
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan, PlanError, Policy, Script, Upload
from remote.record.layout import FETCHED
from remote.run.state.rank_state import RankState
from remote.transport import Channel, Program, ReachProgress
from remote.transport.ssh.transport import SshTransport
from remote.upload import sources
from remote.upload.files import FileTransfers
from remote.upload.results import expected_sizes, folder_name
from remote.upload.transfers import Transfer
from tests.kit.agents import ROOT
from tests.kit.sshd import Sshd
from tests.kit.wait import wait
from training.agent import MARKER
from training.job import Job
from training.transfer.entries import FileEntry, Misplaced, check_entry, stays_inside
from training.transfer.tree import DamagedTransfer, Tree
from tui.kit.output_folder import OutputFolder

SCRIPT = Script(("python", "train.py"), fetch=("checkpoints", "reports"))


def tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A folder with these files."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def contents(root: Path) -> dict[str, bytes | str]:
    """What lies below a folder: bytes, or where a link leads."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


class Counting:
    """An SSH transport that counts its lines and the bytes that it sends."""

    def __init__(self) -> None:
        self._ssh, self.lines, self.sent = SshTransport(), 0, 0

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:
        line, self.lines = self._ssh.open(host, program, progress), self.lines + 1
        write = line.write

        def counted(data: bytes) -> None:
            self.sent += len(data)
            write(data)

        line.write = counted  # type: ignore[method-assign]
        return line


class Uploading:
    """Uploads of one folder to some hosts, one after the other."""

    def __init__(self, hosts: tuple[Host, ...], here: Path) -> None:
        self.plan = Plan(
            "a-run",
            hosts,
            SCRIPT,
            Policy(),
            sources.resolve_uploads([str(here)], here),
            sources.project_name(here),
        )
        self.transport, self.told = Counting(), list[str]()

    def __call__(self) -> dict[int, str]:
        self.told.clear()
        self.transport.lines = self.transport.sent = 0
        return FileTransfers(
            self.plan, self.transport, lambda _, text: self.told.append(text)
        ).upload()

    def root(self, index: int) -> Path:
        return Path(self.plan.cwd(index))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tree(
        tmp_path / "my project",
        {"train.py": "import lib\n", "lib/__init__.py": "", "configs/a": "1", "run": "#!/bin/sh\n"},
    )


# Upload -------------------------------------------------------------------------------------------


def test_folder_is_on_both_hosts_and_the_second_time_nothing_is_sent(
    sshd: Sshd, here: Path
) -> None:
    (here / "run").chmod(0o755)
    (here / "link").symlink_to("configs/a")
    upload = Uploading(sshd.make_hosts(2), here)
    assert upload() == {}
    for index in (0, 1):
        assert contents(upload.root(index)) == contents(here)
        assert (upload.root(index) / "run").stat().st_mode & 0o777 == 0o700
        assert (upload.root(index) / "configs/a").stat().st_mode & 0o777 == 0o600
    assert upload() == {}
    assert sorted(upload.told) == [
        f"node{n + 1}: all files are in {upload.root(n)}" for n in (0, 1)
    ]
    assert upload.transport.lines == 2
    assert upload.transport.sent == 0  # not even what is announced


def test_only_what_changed_is_sent_and_what_vanished_vanishes(sshd: Sshd, here: Path) -> None:
    upload = Uploading(sshd.make_hosts(1), here)
    upload()
    root = upload.root(0)
    (root / "lib" / "made_there.txt").write_text("x")
    (root / "configs" / "a").write_text("changed there")
    shutil.rmtree(here / "configs")
    (here / "lib" / "__init__.py").unlink()
    (here / "run").unlink()
    (here / "train.py").write_text("import os\n ")  # as long as before
    assert upload() == {}
    assert contents(root) == {
        "configs/a": b"changed there",
        "lib/made_there.txt": b"x",
        "train.py": b"import os\n ",
    }
    assert [
        text
        for text in upload.told
        if text.startswith("configs/a was deleted here but is kept there")
    ]
    assert [text for text in upload.told if "1 of 1 files (11 B) uploaded" in text]
    assert not [text for text in upload.told if "replaces" in text]
    (root / "train.py").write_text("import sys\n")  # and what was changed there is put right
    assert upload() == {}
    assert "node1: train.py: changed there since the last upload" in upload.told[0]
    assert (root / "train.py").read_text() == "import os\n "
    (here / "lib" / "made_there.txt").write_text("of here")
    assert upload() == {}
    assert "node1: lib/made_there.txt: changed there" in upload.told[0]
    (here / "train.py").chmod(0o755)
    assert upload() == {}
    assert (root / "train.py").stat().st_mode & 0o100
    assert upload.told == [f"node1: all files are in {root}"]


def test_a_folder_in_place_of_a_file_and_a_link_in_place_of_a_folder(
    sshd: Sshd, here: Path
) -> None:
    upload = Uploading(sshd.make_hosts(1), here)
    upload()
    shutil.rmtree(here / "lib")
    (here / "lib").symlink_to("configs")
    (here / "run").unlink()
    tree(here, {"run/inner": "x"})
    assert upload() == {}
    assert contents(upload.root(0)) == contents(here)
    (here / "lib").unlink()
    tree(here, {"lib/again": "x"})
    assert upload() == {}
    assert contents(upload.root(0)) == contents(here)


def test_empty_folders_are_on_the_host(sshd: Sshd, here: Path) -> None:
    for name in ("output", "logs/a", "cache"):
        (here / name).mkdir(parents=True)
    upload = Uploading(sshd.make_hosts(1), here)
    assert upload() == {}
    root = upload.root(0)
    assert (root / "output").is_dir()
    assert (root / "logs" / "a").is_dir()

    # What the ranks write there changes nothing for the next upload.
    (root / "output" / "made_there.txt").write_text("x")
    assert upload() == {}
    assert upload.told == [f"node1: all files are in {root}"]
    assert upload.transport.sent == 0

    # A user may have moved one to another disk.
    (root / "logs" / "a").rmdir()
    (root / "logs" / "a").symlink_to("/tmp")
    (here / "output").rmdir()
    (here / "cache").rmdir()
    (here / "cache").write_text("a file now")
    assert upload() == {}
    assert (root / "output" / "made_there.txt").exists()
    assert (root / "logs" / "a").is_symlink()
    assert (root / "cache").read_text() == "a file now"

    (here / "cache").unlink()
    (here / "cache").mkdir()
    shutil.rmtree(here / "logs")
    assert upload() == {}
    assert (root / "cache").is_dir()


def test_folders_of_which_nothing_goes_are_empty_unless_they_leave_out_themselves(
    tmp_path: Path,
) -> None:
    tree(
        tmp_path,
        {
            ".gitignore": "*.pt\nbuild\n",
            "build/x": "",
            "output/model.pt": "",
            "venv/.gitignore": "*",
            "venv/bin/python": "",
        },
    )
    assert [source.entry.path for source in sources.find_sources([Upload(str(tmp_path), "")])] == [
        ".gitignore",
        "output",
    ]


def test_two_hosts_with_one_home_do_not_disturb_each_other(sshd: Sshd, here: Path) -> None:
    first, second = sshd.make_hosts(2)
    tree(here, {f"many/{n}": str(n) for n in range(200)})
    upload = Uploading((first, replace(second, workdir=first.workdir)), here)
    assert upload() == {}
    assert contents(upload.root(0)) == contents(here)
    assert sorted(" uploaded to " in text for text in upload.told if "waits" not in text) == [
        False,
        True,
    ]


def test_names_that_are_hard_travel(sshd: Sshd, here: Path) -> None:
    names = ["-rf", "a b\n'\"$(x)", "é\u202e", "..a", "a..", "%2e", "*", "#x", "\\", "~", "." * 200]
    for name in [os.fsencode(name) for name in names] + [b"\xff\xfe"]:
        Path(os.fsdecode(os.path.join(os.fsencode(here), name))).write_bytes(name)
    upload = Uploading(sshd.make_hosts(1), here)
    assert upload() == {}
    assert contents(upload.root(0)) == contents(here)


def test_nothing_is_written_through_a_link_on_the_host(
    sshd: Sshd, here: Path, tmp_path: Path
) -> None:
    upload = Uploading(sshd.make_hosts(2), here)
    elsewhere = tree(tmp_path / "elsewhere", {"keep": "x"})
    upload.root(0).mkdir(parents=True)
    (upload.root(0) / "lib").symlink_to(elsewhere)
    (problem,) = upload().values()
    assert problem.startswith(
        "node1: lib: a link or no folder there, and nothing is written through it"
    )
    assert contents(elsewhere) == {"keep": b"x"}
    assert contents(upload.root(1)) == contents(here)  # the other host has what it needs


def test_a_host_that_cannot_be_written_says_why(sshd: Sshd, here: Path, tmp_path: Path) -> None:
    hosts = sshd.make_hosts(2)
    upload = Uploading(hosts, here)
    Path(hosts[0].workdir).mkdir()
    (Path(hosts[0].workdir) / "files").write_text("in the way")
    assert list(upload()) == [0]
    assert contents(upload.root(1)) == contents(here)


def test_a_host_that_is_cut_is_one_problem_and_the_next_upload_puts_it_right(
    sshd: Sshd, here: Path
) -> None:
    (here / "large").write_bytes(random.Random(0).randbytes(20_000_000))
    upload = Uploading(sshd.make_hosts(1), here)
    found: list[dict[int, str]] = []
    thread = threading.Thread(target=lambda: found.append(upload()))
    thread.start()
    staging = upload.root(0).with_name(f"{upload.plan.project}.new")
    wait(
        lambda: staging.is_dir() and any(path.stat().st_size for path in staging.iterdir()),
        "the large file on its way",
    )
    sshd.node("node1").cut()
    thread.join(20)
    assert found[0][0].startswith("node1: ")
    assert not (upload.root(0) / "large").exists()
    tree(staging, {"left": "by a receiver that was killed"})
    assert upload() == {}
    assert contents(upload.root(0)) == contents(here)
    assert not staging.exists()


def test_an_upload_that_is_stopped_ends_at_once(sshd: Sshd, here: Path) -> None:
    (here / "large").write_bytes(random.Random(0).randbytes(60_000_000))
    upload = Uploading(sshd.make_hosts(2), here)
    files = FileTransfers(upload.plan, upload.transport, lambda *_: None)
    found: list[dict[int, str]] = []
    thread = threading.Thread(target=lambda: found.append(files.upload()))
    thread.start()
    wait(lambda: upload.transport.sent > 300_000, "the large file on its way to one of them")
    files.stop()
    thread.join(20)
    (problems,) = found
    assert problems, "one at least was on its way"
    assert (
        problems.items()
        <= {0: "node1: stopped before its end", 1: "node2: stopped before its end"}.items()
    )


# What goes ----------------------------------------------------------------------------------------

NAMES = ("a", "b", "c.py", "d.txt", "keep", "build")
PATTERNS = (
    *(
        "*",
        "!*/",
        "!*.py",
        "*.txt",
        "!keep",
        "a/",
        "a/*",
        "!a/b",
        "!a/b/",
        "/b",
        "**/b",
        "b/**",
        "!b/**/keep",
        "a/**/c.py",
    ),
    *(
        "build",
        "!build/",
        "keep/*",
        "!keep/c.py",
        "[ab]",
        "!/a/",
        "d.???",
        "/*",
        "\\!x",
        "#c",
        "*/",
        "!d.txt",
        "**",
    ),
    *("c.py/", "[", "!", "/"),
)


def test_what_git_leaves_out_is_left_out(tmp_path: Path) -> None:
    """Random trees with random .gitignore files on all levels, against git."""
    if not shutil.which("git"):
        pytest.skip("no git here")
    for seed in range(12):
        chance, root = random.Random(seed), tmp_path / str(seed)
        _grow(root, chance, 0)
        subprocess.run(["git", "init", "-q", root], check=True)
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-oz", "--exclude-standard"],
            capture_output=True,
            check=True,
        )
        found = [
            source.entry.path
            for source in sources.find_sources([Upload(str(root), "")])
            if not source.entry.is_folder  # which git does not know
        ]
        assert found == sorted(os.fsdecode(path) for path in listed.stdout.split(b"\0") if path), (
            seed
        )
        for folder in (path for path in root.iterdir() if path.is_dir() and path.name != ".git"):
            below = [path for path in found if path.startswith(f"{folder.name}/")]
            if below:  # a folder that is not left out itself: the rules above it hold in it too
                assert [
                    one.entry.path
                    for one in sources.find_sources([Upload(str(folder), folder.name)])
                    if not one.entry.is_folder
                ] == below


def _grow(folder: Path, chance: random.Random, depth: int) -> None:
    folder.mkdir()
    for name in NAMES:
        if chance.random() < 0.6:
            if depth < 3 and chance.random() < 0.5:
                _grow(folder / name, chance, depth + 1)
            else:
                (folder / name).touch()
    if depth == 0 or chance.random() < 0.3:
        (folder / ".gitignore").write_text(
            "\r\n".join(chance.choices(PATTERNS, k=chance.randint(1, 5)))
        )


def test_a_folder_that_is_named_goes_though_it_is_left_out_above(tmp_path: Path) -> None:
    tree(tmp_path, {".gitignore": "data\n", "data/x": "1", "data/.gitignore": "y", "data/y": "2"})
    (tmp_path / ".git").mkdir()
    assert [
        one.entry.path for one in sources.find_sources([Upload(str(tmp_path / "data"), "data")])
    ] == [
        "data/.gitignore",
        "data/x",
    ]


def test_what_rankboard_has_written_is_left_out_unless_it_is_named(tmp_path: Path) -> None:
    tree(tmp_path, {"train.py": "1", "report-a/mine.md": "2"})
    for folder, command, names in (
        ("exports/csv", "export", ["a-run/steps.csv", "a-run/run.json", "../../train.py"]),
        ("report-a", "report", ["report.html"]),
    ):
        output_folder = OutputFolder(tmp_path / folder, command)
        output_folder.note(names)
        tree(tmp_path / folder, dict.fromkeys(names[:2], "3"))
        (tmp_path / folder / names[0]).write_text("3")
    everything = sources.find_sources([Upload(str(tmp_path), "")])
    assert [source.entry.path for source in everything] == ["report-a/mine.md", "train.py"]
    named = sources.find_sources([Upload(f"{tmp_path}/exports", "exports")])
    assert [source.entry.path for source in named] == [
        "exports/csv/.rankboard-files.json",
        "exports/csv/a-run/run.json",
        "exports/csv/a-run/steps.csv",
    ]


def test_where_uploads_land(tmp_path: Path) -> None:
    here = tree(tmp_path / "p", {"src/a": "", "deep/er/b": "", "file": ""}).absolute()
    outside = tree(tmp_path / "lib", {"x": ""})
    paths = [
        str(path) for path in (here, here / "src", here / "deep" / "er", here / "file", outside)
    ]
    assert [one.target for one in sources.resolve_uploads(paths, here)] == [
        "",
        "src",
        "deep/er",
        "file",
        "lib",
    ]
    assert sources.project_name(here).startswith("p-")
    assert sources.project_name(here) != sources.project_name(tmp_path / "q" / "p")
    with pytest.raises(PlanError, match="there is no such file or folder; see --upload"):
        sources.resolve_uploads([str(here / "none")], here)
    with pytest.raises(PlanError, match="have the same name"):
        sources.resolve_uploads([str(tree(here / "lib", {"x": ""})), str(outside)], here)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "sub/../../x", "sub/.."])
def test_a_link_out_of_the_folder_is_refused(target: str, here: Path) -> None:
    (here / "link").symlink_to(target)
    with pytest.raises(
        PlanError, match=r"link is a link out of the folder, to .*\nName them in a \.gitignore"
    ):
        sources.find_sources([Upload(str(here), "")])


def test_a_large_upload_is_remarked_upon() -> None:
    def source(path: str, size: int) -> sources.UploadSource:
        return sources.UploadSource(path, FileEntry(path, size), (size, 0, 0, 0))

    assert sources.remark_if_large([source("a", sources.LARGE)]) == ""
    text = sources.remark_if_large(
        [source("a\x1b", 150_000_000), source("b", 50_000_001), source("c", 1), source("d", 0)]
    )
    assert (
        "4 files, 191 MiB, to every host. The largest are 'a\\x1b' (143 MiB), b (47.7 MiB), c (1 B)"
        ". Name" in text
    )
    assert "20,001 files" in sources.remark_if_large([source("a", 0)] * (sources.MANY + 1))


# Names that are not trusted -----------------------------------------------------------------------

OUTSIDE = ["../x", "/x", "a/../../x", "a//x", "", ".", "a/.", "..", "a\0b", "\ud800"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_name_out_of_the_folder_is_refused(path: str) -> None:
    with pytest.raises(Misplaced):
        check_entry(FileEntry(path))


@pytest.mark.parametrize(
    ("link", "inside"),
    [
        ("b", True),
        ("../b", True),
        ("./x/../..", False),
        ("../../b", False),
        ("/b", False),
        ("b/../c", False),
        ("..", True),
    ],
)
def test_whether_a_link_stays(link: str, inside: bool) -> None:
    assert stays_inside("folder/link", link) is inside


@pytest.mark.parametrize("path", ["../out", "/tmp/out", "a/../../out", "link/out"])
def test_a_launcher_that_lies_writes_nothing_elsewhere(path: str, tmp_path: Path) -> None:
    """Straight to the errand, without the launcher's own checks."""
    root = tmp_path / "files" / "p"
    root.mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    entry = {"path": path, "size": 1, "digest": hashlib.sha256(b"x").hexdigest()}
    said = json.dumps({"entries": [entry]}).encode() + b"\nx"
    words = [sys.executable, "-m", "training.agent", "receive", str(tmp_path / "files"), "p", "m"]
    done = subprocess.run(words, input=said, capture_output=True, cwd=ROOT, check=True)
    assert done.stdout.startswith(MARKER + b'{"unknown":"m"}\n{"error":"')
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "files" / "out").exists()


def test_a_file_that_arrives_damaged_is_not_written(tmp_path: Path) -> None:
    landing = Tree(str(tmp_path / "root"), str(tmp_path / "new"))
    good = FileEntry("a/b", 3, hashlib.sha256(b"abc").hexdigest())
    landing.put(good, [b"a", b"bc"])
    with pytest.raises(DamagedTransfer):
        landing.put(replace(good, executable=True), [b"abd"])
    assert contents(tmp_path / "root") == {"a/b": b"abc"}
    landing.close()
    assert not (tmp_path / "new").exists()


# Fetch --------------------------------------------------------------------------------------------


class Fetching:
    """Results of a run on hosts, and how they are fetched."""

    def __init__(self, hosts: tuple[Host, ...], folder: Path, **policy: Any) -> None:
        self.plan = Plan("a-run", hosts, Job(checkpoint_every="5"), Policy(**policy))
        self.folder, self.told, self.transport = folder, list[str](), Counting()
        for index in range(len(hosts)):
            files = {
                "model.pt": b"m" * 100_000,
                f"rank{index}.pt": b"r",
                "manifest.json": b"{}",
                "rank9.pt.part": b"half",
            }
            step = tree(Path(self.plan.folder(index), "checkpoints", "step-000005"), files)
            tree(step.parent.parent, {"journal": "no"})

    def __call__(self, *hosts: int) -> dict[int, str]:
        files = FileTransfers(self.plan, self.transport, lambda _, text: self.told.append(text))
        return files.fetch(self.folder, hosts or range(len(self.plan.hosts)))


def test_checkpoints_come_back_once(sshd: Sshd, tmp_path: Path) -> None:
    first, second = sshd.make_hosts(2)
    fetch = Fetching(
        (first, replace(second, name="../évil", workdir=first.workdir)), tmp_path / "run"
    )
    assert fetch() == {}
    step = "checkpoints/step-000005"
    assert contents(tmp_path / "run") == {
        f"{FETCHED}/{name}/{step}/{file}": content
        for name, rank in (("node1", 0), ("%2E./%C3%A9vil".replace("/", "%2F"), 1))
        for file, content in (
            ("manifest.json", b"{}"),
            ("model.pt", b"m" * 100_000),
            (f"rank{rank}.pt", b"r"),
        )
    }
    (tmp_path / "run" / FETCHED / "node1" / step / "model.pt").write_bytes(b"x" * 100_000)
    fetch.told.clear()
    assert fetch() == {}
    fetched_text = f"node1: 3 files (97.7 KiB) fetched into {tmp_path / 'run' / FETCHED / 'node1'}"
    assert fetch.told.count(fetched_text) == 1
    assert len(fetch.told) == 2
    assert (tmp_path / "run" / FETCHED / "node1" / step / "model.pt").read_bytes() == b"m" * 100_000


def test_what_cannot_be_fetched_is_said_with_where_it_stays(sshd: Sshd, tmp_path: Path) -> None:
    fetch = Fetching(sshd.make_hosts(3), tmp_path / "run")
    sshd.node("node2").stop()
    try:
        problems = fetch(0, 1)
    finally:
        sshd.node("node2").start()
    assert list(problems) == [1, 2]
    assert problems[1].startswith("node2: 127.0.0.2")
    assert (
        problems[2]
        == f"node3: it is lost; what was saved there stays in {fetch.plan.folder(2)}/checkpoints"
    )
    assert sorted(path.name for path in (tmp_path / "run" / FETCHED).iterdir()) == ["node1"]


def test_a_checkpoint_with_a_part_missing_is_not_complete(sshd: Sshd, tmp_path: Path) -> None:
    fetch = Fetching(sshd.make_hosts(1), tmp_path / "run")
    model = Path(fetch.plan.folder(0), "checkpoints", "step-000005", "model.pt")
    open_line = fetch.transport.open

    def open_and_change(host: Host, program: Program, progress: ReachProgress) -> Channel:
        line = open_line(host, program, progress)
        write = line.write

        def written(data: bytes) -> None:
            model.write_bytes(b"M" * 100_000)  # after it was announced
            write(data)

        line.write = written  # type: ignore[method-assign]
        return line

    fetch.transport.open = open_and_change  # type: ignore[method-assign]
    (problem,) = fetch().values()
    assert problem.startswith(
        "node1: checkpoints/step-000005/model.pt could not be read there, or changed meanwhile; "
        "what"
    )
    assert list(contents(tmp_path / "run")) == [f"{FETCHED}/node1/checkpoints/step-000005/rank0.pt"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**", {"a.pt", "out/.b", "out/x/a.pt", "out/x/in", "out/x/up"}),
        ("out/**", {"out/x/a.pt", "out/x/in", "out/x/up"}),
        ("**/*.pt", {"a.pt", "out/x/a.pt"}),
        ("o*", {"out/.b", "out/x/a.pt", "out/x/in", "out/x/up"}),
        ("*/*/u?", {"out/x/up"}),
        ("out/x", {"out/x/a.pt", "out/x/in", "out/x/up"}),
        ("none", set()),
    ],
)
def test_results_by_patterns_never_leave_the_folder(
    sshd: Sshd, tmp_path: Path, pattern: str, names: set[str]
) -> None:
    work = tree(tmp_path / "[w]", {"a.pt": "a", ".hidden": "h", "out/.b": "b", "out/x/a.pt": "a"})
    for name, target in {"etc": "/etc", "out/x/etc": "/etc", "out/x/up": "../..", "u": "/"}.items():
        (work / name).symlink_to(target)
    (work / "out/x/in").symlink_to(".")
    os.mkfifo(work / "out/pipe.pt")
    (host,) = sshd.make_hosts(1)
    plan = Plan("a-run", (replace(host, cwd=str(work)),), Script(("a",), fetch=(pattern,)))
    files = FileTransfers(plan, Counting(), lambda *_: None)
    assert files.fetch(tmp_path / "run", [0]) == {}
    assert contents(tmp_path / "run").keys() == {f"{FETCHED}/node1/{name}" for name in names}


def test_results_that_were_there_before_the_run_are_named(sshd: Sshd, tmp_path: Path) -> None:
    work = tree(tmp_path / "work", {"new.pt": "n", "old.pt": "o"})
    os.utime(work / "old.pt", (0, time.time() - 120))
    (host,) = sshd.make_hosts(1)
    plan = Plan("a-run", (replace(host, cwd=str(work)),), Script(("a",), fetch=("*.pt",)))
    told = list[str]()
    files = FileTransfers(plan, Counting(), lambda _, text: told.append(text))
    assert files.fetch(tmp_path / "run", [0], run_age=100.0) == {}
    assert [line for line in told if "older" in line] == [
        "node1: older than this run, which did not write them: old.pt"
    ]
    ages = {
        path.name: time.time() - path.stat().st_mtime for path in (tmp_path / "run").rglob("*.pt")
    }
    assert ages == {"new.pt": pytest.approx(0, abs=60), "old.pt": pytest.approx(120, abs=60)}
    assert contents(tmp_path / "run").keys() == {f"{FETCHED}/node1/{n}.pt" for n in ("new", "old")}


def test_only_where_no_host_has_a_result_it_is_missed(sshd: Sshd, tmp_path: Path) -> None:
    hosts = [
        replace(host, cwd=str(tree(tmp_path / host.name, {f"{host.name}.pt": "m"})))
        for host in sshd.make_hosts(2)
    ]
    told = list[str]()
    for pattern in ("node1.pt", "*.csv"):
        plan = Plan("a-run", tuple(hosts), Script(("a",), fetch=(pattern,)))
        files = FileTransfers(plan, Counting(), lambda _, text: told.append(text))
        assert files.fetch(tmp_path / "run", [0, 1]) == {}
    assert [line for line in told if "no file" in line] == [
        "no file on the hosts matches --fetch *.csv"
    ]


@pytest.mark.parametrize(("pattern", "said"), [("*.pt", 0), ("*.csv", 1), ("none.pt", 1)])
def test_results_that_are_here_are_not_fetched_but_missed(
    tmp_path: Path, pattern: str, said: int
) -> None:
    (tmp_path / "a.pt").touch()
    here = Host("local", "127.0.0.1", transport=LOCAL, cwd=str(tmp_path))
    told = list[str]()
    plan = Plan("a-run", (here,), Script(("a",), fetch=(pattern,)))
    files = FileTransfers(plan, Counting(), lambda _, text: told.append(text))
    assert files.fetch(tmp_path / "run", [0]) == {}
    assert told == [f"no file here matches --fetch {pattern}"] * said
    assert not (tmp_path / "run").exists()


def test_a_run_without_results_costs_no_connection(tmp_path: Path, sshd: Sshd) -> None:
    fetch = Fetching(sshd.make_hosts(1), tmp_path / "run", fetch=False)
    assert fetch() == {}
    fetch.plan = replace(fetch.plan, work=Job(), policy=Policy())
    assert fetch() == {}
    assert fetch.transport.lines == 0


class Lying:
    """A host that announces whatever it likes."""

    def __init__(self, *paths: str) -> None:
        entries = [
            {"path": path, "size": 1, "digest": hashlib.sha256(b"x").hexdigest()} for path in paths
        ]
        self._said = [
            json.dumps({"entries": entries, "unread": []}).encode() + b"\n",
            b"x" * len(paths),
        ]

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:
        return self

    def read(self) -> bytes:
        return self._said.pop(0) if self._said else b""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> str:
        return ""


@pytest.mark.parametrize("path", ["../../../out", "/tmp/out", "reports/../../out"])
def test_a_host_that_lies_writes_nothing_elsewhere(path: str, tmp_path: Path) -> None:
    plan = Plan("a-run", (Host("node1", "x"),), SCRIPT)
    (problem,) = (
        FileTransfers(plan, Lying("checkpoints/a", path), lambda *_: None)
        .fetch(tmp_path / "runs" / "a", [0])
        .values()
    )
    assert f"node1: {path}: no name of a file below the folder" in problem
    assert not list(tmp_path.rglob("*"))


def one_entry(path: str = "checkpoints/a", size: int = 1) -> dict[str, Any]:
    return {"path": path, "size": size, "digest": hashlib.sha256(b"x" * size).hexdigest()}


def listed(*entries: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"entries": entries, "unread": []} | more).encode() + b"\n"


class Endless(Lying):
    """A host that says these, the last again and again; `wrote` is what it was told."""

    def __init__(self, *said: bytes) -> None:
        self._said, self.wrote, self.closed = list(said), list[bytes](), False

    def read(self) -> bytes:
        if self.closed:
            return b""
        return self._said.pop(0) if len(self._said) > 1 else self._said[0]

    def write(self, data: bytes) -> None:
        self.wrote.append(data)

    def close(self) -> str:
        self.closed = True
        return ""


def fetched(
    host: Endless, folder: Path, limits: Limits = LIMITS, expected: Mapping[int, int] | None = None
) -> str:
    """What goes wrong when results are fetched from this host."""
    plan = Plan("a-run", (Host("node1", "x"),), SCRIPT)
    (problem,) = (
        FileTransfers(plan, host, lambda *_: None, limits).fetch(folder, [0], expected).values()
    )
    assert host.closed
    return problem


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            b'{"entries":[' + b"x" * 5000,
            "node1: the other end sent a line longer than 20,000 bytes",
        ),
        (
            b'{"a":[' + b"[]," * 500 + b"[]]}\n",
            "node1: the other end sent a line with more than 1,000 values",
        ),
        (b'{"busy":""}\n' * 50, "node1: it said 100 times that it is busy, and gave no answer"),
        (
            listed(one_entry("a/" * 40 + "b")),
            "node1: the path of a file there has more than 1024 bytes or 32 folders",
        ),
        (
            listed(one_entry("é" * 600)),
            "node1: the path of a file there has more than 1024 bytes or 32 folders",
        ),
        (
            listed(one_entry() | {"size": 10**15}),
            "node1: to fetch takes 909 TiB, and the disk here has ",
        ),
        (
            listed(unread=[[f"checkpoints/{'a' * 400}{n}", "no"] for n in range(30)]),
            f"node1: checkpoints/{'a' * 188}…, checkp",
        ),
    ],
)
def test_what_a_host_offers_has_bounds(said: bytes, problem: str, tmp_path: Path) -> None:
    found = fetched(
        Endless(said),
        tmp_path / "run",
        replace(LIMITS, listing=20_000, values=1000, busy_lines=100),
    )
    assert found.startswith(problem)
    assert len(found) < 1000
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_endless_list_of_files_takes_bounded_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    assert "longer than 16,777,216 bytes" in fetched(Endless(b"x" * 65536), tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * LIMITS.listing


@pytest.mark.parametrize("said", [b'{"busy":""}\n', b"x"])
def test_a_transfer_in_which_no_file_moves_is_ended_however_much_its_host_says(said: bytes) -> None:
    host = Endless(said)
    transfer = Transfer(
        0, Host("node1", "x"), "fetching", lambda *_: None, limits=replace(LIMITS, busy=100.0)
    )
    transfer.open(host)
    for _ in range(5):
        transfer.send(said, is_file=said == b"x")
    transfer.look()
    assert not host.closed
    transfer.marked = (0, transfer.marked[1] - 101)
    transfer.look()
    assert (host.closed, transfer.crawls, transfer.has_stalled) == (True, True, False)
    transfer.send(b"x" * 65536)
    transfer.look()
    assert not transfer.crawls


def test_what_a_transfer_waits_for_is_told_with_its_host_before_a_colon() -> None:
    told: list[str] = []
    busy = b'{"busy":"another upload"}\n'
    limits = replace(LIMITS, busy_lines=2)
    host = Host("node1", "x")
    transfer = Transfer(0, host, "fetching", lambda _, text: told.append(text), limits=limits)
    transfer.open(Endless(busy))
    with pytest.raises(OSError, match="it is busy"):
        transfer.answer()
    assert told == ["node1: waits: another upload"], "so that nobody names it again"


def test_a_host_that_offers_far_more_than_its_ranks_saved_is_refused(tmp_path: Path) -> None:
    limits = replace(LIMITS, unexpected=100)
    offer = listed(one_entry("checkpoints/a", 700), one_entry("checkpoints/b", 401))
    found = fetched(Endless(offer), tmp_path / "run", limits, {0: 500})
    assert found.startswith(
        "node1: 1.1 KiB of results are there though its ranks saved checkpoints of about 500 B"
    )
    ranks = [RankState(0, 0, 0), RankState(1, 1, 0), RankState(2, 0, 1)]
    job = Job(checkpoint_every="5", checkpoint_keep=2)
    assert expected_sizes(job, ranks) == {}
    ranks[0].saved_bytes, ranks[2].saved_bytes = 10, 7
    assert expected_sizes(job, ranks) == {0: 60, 1: 30}


def test_a_fetch_leaves_room_on_the_disk_and_keeps_what_came_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = [
        one_entry("checkpoints/a", 10),
        one_entry("checkpoints/b", 10),
        one_entry("checkpoints/manifest.json", 10),
    ]
    host = Endless(listed(*offer), b"x" * 10)
    limits = replace(LIMITS, disk_spare=0.5, disk_spare_most=2**62)
    monkeypatch.setattr(Tree, "capacity", lambda _: 1000)
    free = iter([600, 600, 600, 499, 499])  # others write, too
    monkeypatch.setattr(Tree, "free", lambda _: next(free))
    monkeypatch.setattr("remote.upload.results.LOOK", 1)
    assert fetched(host, tmp_path / "run", limits).startswith(
        "node1: the disk here has 499 B left, of which 500 B stay"
    )
    assert list(contents(tmp_path / "run").values()) == [b"x" * 10] * 2
    full = Endless(listed(*offer))
    monkeypatch.setattr(Tree, "free", lambda _: 510)
    assert "to fetch takes 30 B, and the disk here has 510 B left" in fetched(
        full, tmp_path / "again", limits
    )
    assert full.wrote == []


def test_a_host_gets_each_file_of_an_upload_once(here: Path) -> None:
    upload = Uploading((Host("node1", "x"),), here)
    host = Endless(b'{"kept":[],"replaced":[],"need":[0,1,0]}\n')
    problems = FileTransfers(upload.plan, host, lambda *_: None).upload()
    assert problems == {0: "node1: it asks for a file twice"}
    assert host.wrote == []


def test_folders_of_hosts_are_different_and_inside() -> None:
    names = ["node1", "a@b:22", "..", ".", "a/b", "a%2Fb", "é", "-x"]
    assert len({folder_name(name) for name in names}) == len(names)
    assert not {folder_name(name) for name in names} & {".", ".."}
    assert not any("/" in folder_name(name) for name in names)


@pytest.mark.parametrize("name", [FETCHED, f"{FETCHED}/node1"])
def test_no_link_in_a_run_directory_leads_a_fetch_elsewhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    link = tmp_path / "run" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "victim")
    host = Endless(listed(one_entry("checkpoints/a", 10)), b"x" * 10)
    assert fetched(host, tmp_path / "run").startswith("node1: ")
    assert not list((tmp_path / "victim").iterdir())
