"""What the command line understands, without a run: the hosts of this machine, folders of data.
In this process."""

from __future__ import annotations

import json
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.lab.folder import Folder
from remote.launch import Launcher
from remote.record.remarks import find_remarks
from remote.transport.registry import Transports
from tests.kit.checks import hello
from tests.kit.commands import Done, call_rankboard
from tests.kit.histories import History, plan
from training.job import Job, field_groups
from training.wire.host_events import HostSample
from tui.app import show_run as front
from tui.app import start_run as start
from tui.commands import lab
from tui.kit.open_runs import RunOptions

PLACE = re.compile(
    r" RANK=(\d) LOCAL_RANK=(\d) WORLD_SIZE=4 LOCAL_WORLD_SIZE=(\d) GROUP_RANK=(\d) "
    r"GROUP_WORLD_SIZE=(\d)"
)


def run(folder: Path, *words: str) -> Done:
    """`rankboard` with these words, in this folder."""
    with chdir(folder):
        return call_rankboard(*words)


def places(*words: str, folder: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    """The hosts of a dry run, and every rank's place."""
    done = run(folder, "--dry-run", "--local", "4", *words)
    assert done.returncode == 0, done.stderr
    return re.findall(r"^(\w+)  [\d.]+  ", done.stdout, re.MULTILINE), PLACE.findall(done.stdout)


@pytest.mark.parametrize(("link", "name"), [((), "local"), (("--link", "1gbit"), "node")])
def test_slots_are_the_ranks_of_each_host(link: tuple[str, ...], name: str, tmp_path: Path) -> None:
    hosts, ranks = places("--slots", "2", *link, folder=tmp_path)
    assert hosts == [f"{name}1", f"{name}2"]
    assert ranks == [
        ("0", "0", "2", "0", "2"),
        ("1", "1", "2", "0", "2"),
        ("2", "0", "2", "1", "2"),
        ("3", "1", "2", "1", "2"),
    ]


@pytest.mark.parametrize("words", [("--run", "--detach"), ("--on-disconnect", "keep")])
def test_no_run_outlives_what_it_ends_with(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(tmp_path, *words, "--local", "2", "--link", "1gbit", "--model", "lenet5")
    assert (
        done.returncode,
        f"{' '.join(words).removeprefix('--run ')}: the lab" in done.stderr,
    ) == (
        2,
        True,
    )
    job = Cluster("Slurm job 7", (Host("n1", "n1"),), ends="the job ends with this command")
    monkeypatch.setattr("tui.flags.selection._load_hosts", lambda _: job)
    done = run(tmp_path, *words, "--", "ls")
    assert (done.returncode, "the job ends with this command" in done.stderr) == (2, True)


def test_hosts_that_share_this_machine_are_remarked_at_the_start_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(tmp_path, "--dry-run", "--local", "4", "--slots", "2")
    (line,) = done.stderr.splitlines()
    assert "the 2 hosts share" in line
    assert len(line) <= 110
    assert run(tmp_path, "--dry-run", "--local", "4").stderr == ""

    history = History(plan(2))
    for host in range(2):
        sample = HostSample((50.0, 50.0), 1, 2)
        history.say(host, hello(host, boot_id="one", cores=2.0), sample)
    assert find_remarks(history.state()), "who compares figures is told"
    front.narrate_record(Launcher(Transports(), tmp_path), history.state())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rankboard: recorded in ")


def test_without_slots_this_machine_is_one_host(tmp_path: Path) -> None:
    hosts, ranks = places(folder=tmp_path)
    assert hosts == ["local"]
    assert [rank[2:] for rank in ranks] == [("4", "0", "1")] * 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--local", "4", "--slots", "3"),
            "--slots 3 does not divide the 4 ranks of --local: give one of 1, 2, 4",
        ),
        (
            ("--local", "2", "--slots", "4", "--link", "1gbit"),
            "--slots 4 does not divide the 2 ranks",
        ),
        (
            ("--local", "2", "--upload", "src"),
            "--upload src is for other machines: with --local 2 the ranks work in this",
        ),
        (("--slots", "2"), "--slots 2 needs --local N; in a hosts file, write slots = 2"),
        (
            ("--local", "4", "--slots", "2", "--link", "1gbit,1gbit,1gbit"),
            "--link 1gbit,1gbit,1gbit: 3 values for 2 hosts",
        ),
        (("--local", "2", "--model", "torchvision"), "--model torchvision: write torchvision/NAME"),
        (
            ("--local", "2", "--dataset", "imagefolder"),
            "--dataset imagefolder: write imagefolder:PATH",
        ),
    ],
)
def test_mistakes(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = run(tmp_path, "--run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rankboard: {message}")
    assert not list(tmp_path.iterdir())


def test_uploads_are_planned(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "hosts.toml").write_text('[cluster]\nsync = ["src"]\n[[host]]\nname = "a"\n')
    done = run(tmp_path, "--dry-run", "--upload", "hosts.toml")
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("  upload ")]
    assert [(line[1], line[3].rpartition("/")[2]) for line in lines] == [
        (str(tmp_path / name), name) for name in ("src", "hosts.toml")
    ]
    assert all(line[3].startswith(f"~/.rankboard/files/{tmp_path.name}"[:30]) for line in lines)
    missing = run(tmp_path, "--dry-run", "--upload", "none")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert (
        f"upload {tmp_path / 'none'}: there is no such file or folder; see --upload"
        in missing.stderr
    )


def test_hosts_that_are_this_machine_work_with_the_files_themselves(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    host = '[[host]]\nname = "{}"\naddress = "127.0.0.1"\ntransport = "local"\n'
    hosts_text = '[cluster]\nsync = ["."]\n' + host.format("a") + host.format("b")
    (tmp_path / "hosts.toml").write_text(hosts_text)
    done = run(tmp_path, "--dry-run", "--json", "--fetch", "model.pt", "--", "train.py")
    plan = json.loads(done.stdout)
    assert [host["cwd"] for host in plan["hosts"]] == [str(tmp_path)] * 2
    assert not plan.get("uploads"), "nothing is sent"


@pytest.mark.parametrize(
    ("given", "planned"), [("a b", "{here}/a b"), ("/x", "/x"), ("~/x", "~/x")]
)
def test_a_folder_of_images_is_taken_from_here(given: str, planned: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "a"\n')
    done = run(tmp_path, "--dry-run", "--dataset", f"imagefolder:{given}")
    assert f"imagefolder:{planned.format(here=tmp_path)}" in done.stdout


def test_a_folder_that_is_not_on_this_machine_is_told_before_anything_is_started(
    tmp_path: Path,
) -> None:
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "a"\n')
    (tmp_path / "src").mkdir()
    for way in (("--local", "1"), ("--upload", "src")):
        done = run(tmp_path, "--dry-run", *way, "--dataset", "imagefolder:src/photos")
        assert (done.returncode, done.stdout) == (2, "")
        where = tmp_path / "src" / "photos"
        assert done.stderr.startswith(
            f"rankboard: --dataset imagefolder:{where}: {where}: No such file or directory; write"
        )


@pytest.mark.parametrize(
    ("given", "planned"),
    [("photos", "photos"), ("./photos/a", "photos/a"), ("other", "{here}/other")],
)
def test_a_folder_of_images_that_is_uploaded_is_found_where_it_lands(
    given: str, planned: str, tmp_path: Path
) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "a"\n')
    done = run(
        tmp_path,
        "--dry-run",
        "--upload",
        "photos",
        "--dataset",
        f"imagefolder:{given}",
        "--data-dir",
        given,
    )
    assert f"imagefolder:{planned.format(here=tmp_path)}" in done.stdout
    assert f"--data-dir {planned.format(here=tmp_path)}\n" in done.stdout


def test_every_field_of_a_job_is_in_one_group() -> None:
    assert [setting.name for group in field_groups().values() for setting in group] == list(
        Job.__dataclass_fields__
    )


@pytest.mark.parametrize(("flags", "steps"), [((), []), (("--run",), [start.NICE])])
def test_only_lines_step_back_behind_the_ranks_of_this_machine(
    flags: tuple[str, ...], steps: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboard answers keys also while the ranks take all of the machine."""
    taken: list[int] = []
    monkeypatch.setattr(start.os, "nice", taken.append)
    monkeypatch.setattr(start.Launcher, "begin", lambda self, plan, name: None)
    monkeypatch.setattr(front, "is_on_terminal", lambda: True)
    for how in ("show_lines", "show_dashboard"):
        monkeypatch.setattr(front, how, lambda *what, **more: 0)
    done = run(tmp_path, "--local", "1", "--steps", "1", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert taken == steps


@pytest.mark.parametrize("flag", ["--run", "--dry-run"])
def test_a_form_needs_the_dashboard(flag: str, tmp_path: Path) -> None:
    done = run(tmp_path, "--form", flag, "--local", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--form opens the dashboard, which {flag} does without: drop one" in done.stderr


@pytest.mark.parametrize("form", [False, True])
def test_any_options_prefill_the_form(
    form: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: dict[str, Any] = {}

    def show(launcher: Launcher, cluster: Cluster, chosen: Cluster, job: Job, **more: Any) -> int:
        heard.update(more, job=job, policy=launcher.policy, ranks=chosen.hosts[0].slots)
        return 0

    monkeypatch.setattr(front, "show_dashboard", show)
    words = ["--local", "2", "--lr", "0.5", "--max-restarts", "3", *["--form"] * form]
    assert run(tmp_path, *words).returncode == 0
    assert heard["at_once"] is not form
    assert (heard["job"], heard["policy"].max_restarts) == (Job(lr=0.5), 3)
    assert (heard["ranks"], heard["keep"], heard["options"]) == (2, False, RunOptions())


def test_the_form_shows_no_password_of_a_notification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: dict[str, Any] = {}
    monkeypatch.setattr(front, "show_dashboard", lambda *what, **more: heard.update(more) or 0)
    words = ("--local", "2", "--form", "--notify", "https://ada:SECRET@example.org/hook")
    assert run(tmp_path, *words).returncode == 0
    assert heard["options"].other == ("--notify", "https://USER:PASSWORD@example.org/hook")


def test_a_lab_that_goes_down_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(Folder, "down", lambda folder: ended.append(folder.name))
    lab.down(name="other")
    assert ended == ["other"]
    assert capsys.readouterr().err.startswith("rankboard: the lab 'other' is down")
