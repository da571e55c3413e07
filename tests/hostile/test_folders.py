"""A run directory is data, never authority: what somebody else's folder may make a command do."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from remote import events as launcher
from remote.cluster.hosts import Host
from tests.hostile.conftest import Run, write_hosts
from tests.hostile.folders import RUN, ended, kept, lines, recorded, session_says
from tests.kit.scripted_hosts import Hosts
from training.wire import events, host_events
from training.wire.commands import StartAttempt
from training.wire.enums import EndReason

COMMANDS = {
    "attach": ("attach", RUN, "--run"),
    "attach last": ("attach", "last", "--run"),
    "stop": ("stop", RUN),
    "logs": ("logs", RUN),
    "events": ("events", RUN),
    "ps": ("ps",),
    "prune": ("prune", "--older-than", "0", "--yes"),
    "resume": ("--resume", RUN, "--dry-run"),
}
SECRET = "topsecret-value-123"
WAYS: dict[str, Any] = {
    "address": "192.0.2.66",
    "user": "mallory",
    "port": 666,
    "identity_file": "/tmp/mallory",
    "known_hosts": "/tmp/mallory",
    "jump": "mallory@192.0.2.66",
    "proxy_command": "touch PWNED; false #",
    "python": "/tmp/mallory",
    "workdir": "/tmp/mallory",
    "env": [["LD_PRELOAD", "/tmp/mallory.so"]],
    "env_from": ["MY_SECRET_TOKEN"],
    "timeout": 0.001,
}
"""What a plan.json may claim of the way to a host, and never decides."""


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", SECRET)


def reached(hosts: Hosts) -> set[Host]:
    """The hosts, as the launcher has tried to reach them."""
    return {host for host, _ in hosts.opened}


def told_of_the_secret(hosts: Hosts) -> bool:
    return any(SECRET in repr(command) for player in hosts.players for _, command in player.heard)


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        *((name, claim) for name in ("attach", "stop", "logs") for claim in WAYS),
        *((name, "proxy_command") for name in ("events", "ps", "prune", "resume")),
    ],
)
def test_the_way_to_a_host_is_the_operators(
    name: str, claim: str, rankboard: Run, desk: Path
) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    recorded(desk / "runs", **{f"host_{claim}": WAYS[claim]})
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    way = [(host.name, getattr(host, claim)) for host in reached(hosts)]
    assert set(way) <= {(host.name, getattr(host, claim)) for host in hosts.hosts}
    assert not told_of_the_secret(hosts)
    assert SECRET not in done.said
    assert not (desk / "PWNED").exists()


@pytest.mark.parametrize("name", ["attach", "attach last", "stop", "logs"])
@pytest.mark.parametrize("file", ["none", "of others"])
def test_a_host_that_the_operator_does_not_know_is_not_reached(
    name: str, file: str, rankboard: Run, desk: Path
) -> None:
    hosts = kept()
    if file == "of others":
        write_hosts(desk / "hosts.toml", (Host("other1", "127.0.0.1"), Host("other2", "127.0.0.2")))
    recorded(desk / "runs", host_proxy_command="touch PWNED", host_env_from=["MY_SECRET_TOKEN"])
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    # which may have a newer run than the one that is recorded here
    asked = {"other1", "other2"} if (name, file) == ("attach last", "of others") else set()
    assert {host.name for host, _ in hosts.opened} == asked
    assert done.code in (2, 3)
    assert "node1" in done.err or "hosts.toml" in done.err


@pytest.mark.parametrize("name", ["attach", "stop"])
def test_a_foreign_folder_restarts_nothing(name: str, rankboard: Run, desk: Path) -> None:
    """What has failed, and would be restarted by its plan.json, with a secret of the operator."""
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    failed = [line for host in range(2) for line in lines(host, [*events_of_a_failure(host)])]
    for player in hosts.players:
        player.journal[:] = [line for line in failed if f'"host":{player.number},'.encode() in line]
    policy = {"max_restarts": 3, "min_nodes": 1, "keep": True, "doctor": False}
    recorded(desk / "runs", said=failed, policy=policy, host_env_from=["MY_SECRET_TOKEN"])
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    assert not [
        command
        for player in hosts.players
        for _, command in player.heard
        if isinstance(command, StartAttempt)
    ]
    assert not told_of_the_secret(hosts), done.said


def events_of_a_failure(host: int) -> tuple[events.Event, ...]:
    return (*ended(host)[:4], host_events.Exited(host, 1))


RULES = {
    "one that takes hours": [r"loss (?:a|aa)+(?P<loss>\d+)x"],
    "many that take long to compile": ["a?" * 200 + "(?P<loss>1)"] * 2_000,
}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ("runs",)),
        (0, ("ps",)),
        (0, ("logs", RUN, "--parse")),
        (0, ("report", RUN)),
        (0, ("export", RUN, "--to", "json")),
        (2, ("stop", RUN)),  # no hosts file has its hosts
        (2, ("attach", RUN, "--run")),
        (3, ("logs", RUN)),
        (3, ("events", RUN)),
    ],
)
def test_no_rule_of_a_folder_is_run(
    code: int,
    words: tuple[str, ...],
    rules: str,
    rankboard: Run,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pattern: str) -> None:
        raise AssertionError(f"it was compiled: {pattern[:40]}")

    monkeypatch.setattr("remote.formats.linear._compile", refuse)
    lines_of_rules = [{"line": line} for line in RULES[rules]]
    script = {"words": ["train.py"], "watch": False, "rules": lines_of_rules}
    evil = host_events.OutputText(0, "stdout", f"loss {'a' * 52} 1.5\nstep 3, loss 0.5")
    said = lines(0, [*ended(0)[:3], evil])
    recorded(desk / "runs", said=said, work={"script": script})
    done = rankboard(*words, over=Hosts()).holds()
    assert done.code == code, done.said
    if words[-1] == "--parse":
        assert "step 3: loss 0.5" in done.out
    if "--parse" in words or words[0] in ("report", "export"):
        assert f"you did not record this run: {len(lines_of_rules):,} rule" in done.err


CONTROL = "\x1b]52;c;cm0gLXJmIC8=\x07\x1b[2J\x9b31m\u202e"


@pytest.mark.parametrize("name", ["attach", "logs", "ps", "prune", "resume"])
@pytest.mark.parametrize("claim", ["name", "address", "user", "python", "workdir", "interface"])
def test_no_escape_of_a_folder_reaches_the_terminal(
    name: str, claim: str, rankboard: Run, desk: Path
) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    recorded(desk / "runs", **{f"host_{claim}": f"evil{CONTROL}"})
    rankboard(*COMMANDS[name], over=hosts).holds()


NUMBERS = [
    ("host_slots", 10**9),
    ("host_slots", 10**30),
    ("host_slots", -1),
    ("host_slots", 0),
    ("host_slots", "many"),
    ("host_threads", 10**30),
    ("host_threads", -5),
    ("host_port", 10**9),
    ("host_timeout", float("nan")),
    ("host_timeout", float("inf")),
    ("host_timeout", -1),
    ("policy", {"start_timeout": float("nan")}),
    ("policy", {"start_timeout": float("inf")}),
    ("policy", {"start_timeout": -1e300}),
    ("policy", {"max_restarts": 10**22}),
    ("policy", {"max_restarts": -1}),
    ("policy", {"min_nodes": 10**18}),
    ("policy", {"on_stall": "rm -rf"}),
    ("policy", []),
    ("work", {"job": {"steps": 10**30}}),
    ("work", {"job": {"batch_size": -1}}),
    ("work", {"job": {"lr": float("nan")}}),
    ("work", {"script": ["sh", "-c", "touch PWNED"]}),
    ("work", {}),
    ("hosts", []),
    ("hosts", {}),
    ("hosts", [{}] * 100),
    ("run", "../../etc"),
    ("run", "another-run"),
    ("project", "../.."),
    ("uploads", [{"source": "/etc", "target": "../../x"}]),
    ("uploads", [{"source": "/etc/shadow", "target": "photos"}]),
]


@pytest.mark.parametrize("name", ["attach", "logs", "prune"])
@pytest.mark.parametrize(
    ("claim", "value"), NUMBERS, ids=[f"{key}-{str(value)[:24]}" for key, value in NUMBERS]
)
def test_a_wild_plan_is_told_or_does_no_harm(
    name: str, claim: str, value: Any, rankboard: Run, desk: Path
) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    recorded(desk / "runs", **{claim: value})
    rankboard(*COMMANDS[name], over=hosts).holds()
    assert not (desk / "PWNED").exists()
    assert sorted(path.name for path in desk.iterdir()) == ["hosts.toml", "runs"]
    assert not [words for _, words in hosts.opened if words[0] == "receive"]


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", "[]", "\0" * 1000])
@pytest.mark.parametrize("name", ["attach", "stop", "logs", "ps", "prune", "resume"])
def test_what_is_no_plan_is_told(name: str, text: str, rankboard: Run, desk: Path) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    (recorded(desk / "runs") / "plan.json").write_text(text)
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    assert done.code == (0 if name in ("ps", "prune") else 2)


# The file of the launcher's process ---------------------------------------------------------------


PIDS = [
    "-1",
    "0",
    "1",
    "garbage",
    "",
    "-7 here",
    "99999999999999999999",
    "1e3",
    "own",
    "1 \x1b[31mhost",
    "\0\0",
]


@pytest.mark.parametrize("text", PIDS, ids=[ascii(one) for one in PIDS])
@pytest.mark.parametrize(
    ("name", "held"), [("stop", True), ("attach", True), ("prune", True), ("stop", False)]
)
def test_no_process_but_a_launcher_is_signalled(
    name: str, text: str, held: bool, rankboard: Run, desk: Path, signals: list[tuple[int, int]]
) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    folder = recorded(desk / "runs")
    machine = "" if " " in text or not text else f" {socket.gethostname()}"
    (folder / "launcher.pid").write_text(text.replace("own", str(os.getpid())) + machine + "\n")
    with (folder / "launcher.pid").open() as lock:
        if held:
            fcntl.flock(lock, fcntl.LOCK_EX)
        rankboard(*COMMANDS[name], over=hosts).holds()
    assert signals == []


def test_a_process_of_ours_that_is_no_launcher_is_not_signalled(
    rankboard: Run, desk: Path, signals: list[tuple[int, int]]
) -> None:
    """Not even where the file names it and the lock is held."""
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    folder = recorded(desk / "runs")
    victim = subprocess.Popen([sys.executable, "-c", "input()", "rankboard"], stdin=subprocess.PIPE)
    try:
        (folder / "launcher.pid").write_text(f"{victim.pid} {socket.gethostname()}\n")
        with (folder / "launcher.pid").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            rankboard("stop", RUN, over=hosts).holds()
        assert signals == []
    finally:
        victim.communicate(timeout=10)  # it ends with its stdin, as no signal can be sent here


# Links --------------------------------------------------------------------------------------------


FILES = [
    *(
        "plan.json",
        "plan.part",
        "events.jsonl",
        "steps.bin",
        "launcher.pid",
        "summary.json",
        "summary.part",
        "report.txt",
        "report.part",
    ),
    *("logs", "logs/rank-0.log", "logs/rank-1.log", "logs/host-0.log", "node", "hosts"),
]


@pytest.mark.parametrize("name", ["attach", "stop", "prune"])
@pytest.mark.parametrize("file", FILES)
def test_no_link_of_a_folder_is_followed(
    name: str, file: str, rankboard: Run, desk: Path, tmp_path: Path
) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    folder = recorded(desk / "runs")
    outside = tmp_path / "outside"
    outside.mkdir()
    is_folder = file in ("logs", "node", "hosts")
    there = outside / "victim"
    path = folder / file
    if is_folder:
        there.mkdir()
        (there / "precious").write_text("mine")
        if path.is_dir():
            path.rmdir()
    else:
        there.write_bytes(path.read_bytes() if path.exists() else b"mine\n")
        path.unlink(missing_ok=True)
    before = contents(outside)
    path.symlink_to(there)
    rankboard(*COMMANDS[name], over=hosts).holds()
    assert contents(outside) == before


@pytest.mark.parametrize("name", ["attach", "stop"])
@pytest.mark.parametrize(
    "file",
    ["plan.part", "events.jsonl", "steps.bin", "launcher.pid", "summary.part", "logs/rank-0.log"],
)
def test_no_file_is_made_through_a_link(
    name: str, file: str, rankboard: Run, desk: Path, tmp_path: Path
) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    folder = recorded(desk / "runs")
    (folder / file).unlink(missing_ok=True)
    (folder / file).symlink_to(tmp_path / "made")
    rankboard(*COMMANDS[name], over=hosts).holds()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["attach", "stop", "logs", "prune"])
def test_a_folder_that_is_a_link_is_none(
    name: str, rankboard: Run, desk: Path, tmp_path: Path
) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    recorded(tmp_path / "elsewhere")
    (desk / "runs").mkdir()
    (desk / "runs" / RUN).symlink_to(tmp_path / "elsewhere" / RUN)
    before = contents(tmp_path / "elsewhere")
    rankboard(*COMMANDS[name], over=hosts).holds()
    assert contents(tmp_path / "elsewhere") == before


@pytest.mark.parametrize("name", ["attach", "stop", "logs", "events"])
@pytest.mark.parametrize(
    "file", ["plan.json", "events.jsonl", "steps.bin", "launcher.pid", "summary.json"]
)
def test_a_pipe_in_place_of_a_file_holds_nothing_up(
    name: str, file: str, rankboard: Run, desk: Path
) -> None:
    """To open a FIFO waits for its other end."""
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    path = recorded(desk / "runs") / file
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    rankboard(*COMMANDS[name], over=hosts).holds()


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


# Records ------------------------------------------------------------------------------------------


def forged(text: str) -> list[bytes]:
    return [text.encode() + b"\n"]


HEAD = '"attempt":0,"seq":5,"time":1001.0'
RECORDS: dict[str, list[bytes]] = {
    "clock of no host": forged(f'{{"host":-1,{HEAD},"event":"clock","on":99,"offset":0.0}}'),
    "clock of host -2": forged(f'{{"host":-1,{HEAD},"event":"clock","on":-2,"offset":0.0}}'),
    "clock that is none": forged(f'{{"host":-1,{HEAD},"event":"clock","on":0,"offset":NaN}}'),
    "clock beyond all": forged(f'{{"host":-1,{HEAD},"event":"clock","on":0,"offset":1e308}}'),
    "record of host 99": forged(f'{{"host":99,{HEAD},"event":"ended","reason":"closed"}}'),
    "record of host -7": forged(f'{{"host":-7,{HEAD},"event":"ended","reason":"closed"}}'),
    "seq beyond all": forged(
        f'{{"host":0,"attempt":0,"seq":{10**30},"time":1001.0,"event":"text","rank":0}}'
    ),
    "seq near the end": forged(
        f'{{"host":0,"attempt":0,"seq":{2**62},"time":1.0,"event":"text","rank":0,"stream":"stdout","text":"x"}}'
    ),
    "attempt beyond all": forged(
        f'{{"host":0,"attempt":{10**30},"seq":5,"time":1.0,"event":"launched","ranks":[0]}}'
    ),
    "attempt that nobody asked for": forged(
        '{"host":0,"attempt":77,"seq":5,"time":1.0,"event":"launched","ranks":[0]}'
    ),
    "restart on no hosts": session_says(launcher.Restarted((), "why")),
    "restart on host 99": session_says(launcher.Restarted((99,), "why")),
    "stall of rank 99": session_says(launcher.Stalled((99,), 1.0)),
    "time beyond all": forged(
        '{"host":0,"attempt":0,"seq":5,"time":1e300,"event":"text","rank":0,"stream":"stdout","text":"x"}'
    ),
    "time that is none": forged(
        '{"host":0,"attempt":0,"seq":5,"time":NaN,"event":"text","rank":0,"stream":"stdout","text":"x"}'
    ),
    "cores that are none": forged(
        '{"host":0,"attempt":0,"seq":5,"time":1001.0,"event":"hello","hostname":"h","user":"u","pid":1,"python":"3","executable'
        '":"p","platform":"l","boot_id":"b","cores":NaN,"memory":1,"load":NaN}'
    ),
    "deep": [b'{"host":0,"x":' + b"[" * 50_000 + b"\n"],
    "bytes": [bytes(range(256)) * 20],
    "one long line": [b"x" * 3_000_000 + b"\n"],
    "escapes": lines(
        0,
        [
            host_events.OutputText(0, "stdout", CONTROL),
            host_events.AgentEnded(EndReason.AGENT_DIED, CONTROL),
        ],
    )[:2],
}


@pytest.mark.parametrize("name", ["attach", "stop", "logs", "events"])
@pytest.mark.parametrize("case", RECORDS)
def test_forged_records_do_no_harm(name: str, case: str, rankboard: Run, desk: Path) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    honest = [line for host in range(2) for line in lines(host, events_of_a_failure(host)[:4])]
    recorded(desk / "runs", said=[*honest, *RECORDS[case]])
    rankboard(*COMMANDS[name], over=hosts).holds()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"verdict": 7}',
        '{"verdict": "\x1b[31mfine"}',
        "[" * 100_000,
        '{"verdict": {"a": 1}}',
        "\0",
        "9" * 5000,
    ],
)
@pytest.mark.parametrize("name", ["ps", "prune", "attach"])
def test_a_summary_is_not_believed(name: str, text: str, rankboard: Run, desk: Path) -> None:
    hosts = kept()
    write_hosts(desk / "hosts.toml", hosts.hosts)
    (recorded(desk / "runs") / "summary.json").write_text(text)
    rankboard(*COMMANDS[name], over=hosts).holds()
