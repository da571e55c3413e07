"""What hosts answer to errands: it costs the launcher a bounded time and memory, and another host's
answer nothing."""

from __future__ import annotations

import fcntl
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from remote import events as launcher
from remote.cluster.hosts import Host
from remote.formats.linear import _compile as compile_linear
from remote.plan import serialize
from remote.plan.plan import Plan
from tests.hostile.conftest import Run, write_hosts
from tests.hostile.folders import RUN, ended, lines, recorded
from tests.hostile.folders import kept as kept_by
from tests.hostile.values import ESCAPES, wild
from tests.kit.scripted_hosts import End, Hosts, Play, acted, answers, endless
from tests.kit.stage import HELLO, trains
from training.agent import WHOLE
from training.job import Job
from training.wire import events, host_events
from training.wire.commands import Close, Command, Stop
from training.wire.enums import EndReason
from training.wire.host_replies import CodeArchive, LiveRun, Orphan, Removed, RunFolder, Signalled
from training.wire.jsonl import dumps
from tui.flags import which_run

HONEST = RunFolder(
    "20261119-a-run",
    0,
    "/home/u/.rankboard/runs/20261119-a-run/0",
    False,
    "finished",
    1e9,
    1e9,
    2e9,
    4096,
)
COMMANDS = {
    "ps": ("ps",),
    "ps --json": ("ps", "--json"),
    "orphans": ("ps", "--orphans", "--yes"),
    "prune": ("prune", "--older-than", "0", "--elsewhere", "--yes"),
    "stop": ("stop", RUN),
    "attach": ("attach", "last", "--run"),
    "logs": ("logs", RUN),
    "setup": ("setup", "--yes"),
}
ERRANDS = [*COMMANDS]


def honest(end: End) -> None:
    """A host with one run that has ended."""
    match end.words[0]:
        case "runs":
            answers({"kind": "runfolder"} | asdict(HONEST))(end)
        case "remove":
            answers(*({"kind": "removed", "name": name, "kept": ""} for name in end.words[2:]))(end)
        case "orphans" | "end" | "plan" | "journal":
            answers()(end)


def at_desk(desk: Path, play: Play, **more: object) -> Hosts:
    """An honest host and one that plays this, in the operator's hosts file."""
    hosts = Hosts(acted(lambda end, command: None, honest), acted(lambda end, command: None, play))
    write_hosts(desk / "hosts.toml", hosts.hosts, **more)
    return hosts


FLOODS: dict[str, Play] = {
    "a line without end": endless(b"x" * 65_536),
    "a list without end": endless(b'{"kind":"runfolder"},' * 3000, first=b'{"entries":['),
    "lines without end": endless(b'{"kind":"x"}\n' * 5000),
    "errors without end": endless(b'{"error":"no"}\n' * 4000),
    "records without end": endless(lines(1, ended(1))[3] * 400),
    "newlines without end": endless(b"\n" * 65_536),
}


@pytest.mark.parametrize(
    ("name", "flood"),
    [
        *(("ps", flood) for flood in FLOODS),
        *((name, "a line without end") for name in ERRANDS if name != "ps"),
        ("logs", "records without end"),
    ],
)
def test_an_answer_without_end_is_bounded(
    name: str, flood: str, rankboard: Run, desk: Path
) -> None:
    hosts = at_desk(desk, FLOODS[flood])
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    assert done.code in (2, 3), done.said
    assert "node2" in done.err
    if name == "ps":
        assert "20261119-a-run" in done.out


ODD: dict[str, Play] = {
    "nothing": lambda end: None,
    "no end": answers({"kind": "runfolder"}, whole=False),
    "half a line": answers(b'{"kind": "runf', whole=False),
    "bytes": answers(bytes(range(256)) * 20 + b"\n"),
    "deep": answers(b"[" * 100_000 + b"\n"),
    "escapes": answers({"error": ESCAPES}),
    "an error that is none": answers({"error": None}, {"error": [1, {"a": ESCAPES}]}, {"error": 7}),
    "escapes for names": answers({"run": ESCAPES, "plan": "{}", "now": 1.0}),
    "two ends": answers(WHOLE, WHOLE, {"kind": "runfolder"}),
    "a marker": answers(b"rankboard-agent 1\n"),
    "another's record": answers(lines(0, ended(0))[3]),
    "the session's record": answers(
        b'{"host":-1,"attempt":0,"seq":1,"time":1.0,"event":"closed"}\n'
    ),
    "a number of 100,000 digits": answers(b'{"run":' + b"9" * 100_000 + b"}\n"),
    "100,000 lists": answers(b"[]\n" * 100_000),
}


@pytest.mark.parametrize("name", ["ps", "orphans", "stop", "logs", "setup"])
@pytest.mark.parametrize("case", ODD)
def test_an_odd_answer_is_told(name: str, case: str, rankboard: Run, desk: Path) -> None:
    hosts = at_desk(desk, ODD[case])
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    if name == "ps":
        assert "20261119-a-run" in done.out


@pytest.mark.parametrize("name", ["ps", "ps --json", "prune", "stop", "logs"])
def test_a_host_that_says_nothing_is_given_up(name: str, rankboard: Run, desk: Path) -> None:
    def silent(end: End) -> None:
        for _ in end.lines():
            continue

    hosts = at_desk(desk, silent, timeout=0.3)
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    assert (
        "node2: no answer within 0.3 s" in done.err or "node2: its journal stood still" in done.err
    )
    assert done.code in (2, 3)


KINDS = {
    "runs": (RunFolder, CodeArchive),
    "orphans": (Orphan, LiveRun),
    "end": (Signalled,),
    "remove": (Removed,),
}


@pytest.mark.parametrize("name", ["ps", "ps --json", "orphans", "prune"])
@pytest.mark.parametrize(
    "kind", [kind for kinds in KINDS.values() for kind in kinds], ids=lambda kind: kind.__name__
)
def test_any_object_with_any_value(name: str, kind: type[Any], rankboard: Run, desk: Path) -> None:
    """No time, number or name of a host hides what others tell."""

    def play(end: End) -> None:
        said = [{"kind": kind.__name__.lower()} | one for one in wild(kind, run="evil-run")]
        answers(*said)(end)

    hosts = at_desk(desk, play)
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    if name.startswith("ps"):
        assert "20261119-a-run" in done.out


@pytest.mark.parametrize(
    "when", [1e300, -1e300, 1e18, -1e18, float("nan"), float("inf"), 2e9, -1.0]
)
@pytest.mark.parametrize("field", ["began", "last", "now"])
def test_no_time_hides_the_runs_of_others(
    field: str, when: float, rankboard: Run, desk: Path
) -> None:
    hosts = at_desk(
        desk,
        answers(
            {"kind": "runfolder"} | asdict(HONEST) | {"run": "evil-run", "host": 1, field: when}
        ),
    )
    for words in (("ps",), ("ps", "--json")):
        assert "20261119-a-run" in rankboard(*words, over=hosts).holds().out


NAMES = [
    "../../etc",
    "/etc",
    "..",
    ".",
    "",
    "a/b",
    "-rf",
    ".hidden",
    "x\0y",
    ESCAPES,
    "20261119-a-run",
]


@pytest.mark.parametrize("run", NAMES, ids=ascii)
def test_no_name_of_a_host_leads_a_prune_elsewhere(run: str, rankboard: Run, desk: Path) -> None:
    """Each host removes below its own workdir what it has told of itself; here goes what is
    recorded here."""
    hosts = at_desk(
        desk,
        answers(
            {"kind": "runfolder"}
            | asdict(HONEST)
            | {"run": run, "folder": "/etc", "size": -(2**62)}
        ),
    )
    (desk / "runs").mkdir()
    (desk / "precious").write_text("mine")
    done = rankboard(*COMMANDS["prune"], over=hosts).holds()
    assert (desk / "precious").read_text() == "mine"
    asked = [
        words
        for player in hosts.players[:1]
        for words in [end.words for end in player.ends]
        if words[0] == "remove"
    ]
    assert asked in ([("remove", "~/.rankboard", f"runs/{HONEST.run}/0")], [])
    assert "-9223" not in done.said
    assert "-4611686018427387904" not in done.said


def test_what_is_live_here_is_not_pruned_on_a_hosts_word(rankboard: Run, desk: Path) -> None:
    hosts = at_desk(desk, answers({"kind": "runfolder"} | asdict(HONEST) | {"run": RUN, "host": 1}))
    folder = recorded(desk / "runs", hosts.hosts)
    (folder / "launcher.pid").write_text("1 elsewhere\n")
    with (folder / "launcher.pid").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rankboard(*COMMANDS["prune"], over=hosts).holds()
    assert (folder / "plan.json").exists()


# Setting up ---------------------------------------------------------------------------------------

HAS = {
    "executable": "/usr/bin/python3",
    "python": "3.11.7",
    "venv": "/w/venv/bin/python",
    "installed": {},
    "obstacle": "",
}
LACKS = HAS | {"versions": {"torch": "", "torchvision": ""}}
INSTALLS: dict[str, Play] = {
    "nothing": lambda end: None,
    "a line without end": endless(b"x" * 65_536),
    "an escape": answers({"phase": ESCAPES}, {"error": ESCAPES}),
    "a share of nothing": answers({"bytes": "x", "of": 0}, {"bytes": [], "of": 1}),
    "a share without bytes": answers({"of": 7}),
    "a share beyond all": answers({"bytes": 10**400, "of": 1}),
    "versions that are none": answers({"installed": 7, "venv": None}),
    "no venv": answers({"installed": {}}),
    "another's venv": answers({"installed": {"torch": ESCAPES}, "venv": ESCAPES}),
}


@pytest.mark.parametrize("case", INSTALLS)
def test_an_installation_that_tells_lies(case: str, rankboard: Run, desk: Path) -> None:
    def errand(end: End) -> None:
        if end.words[0] == "environment":
            answers(LACKS)(end)
        else:
            next(end.lines())  # what is to be installed
            INSTALLS[case](end)

    hosts = Hosts(acted(lambda end, command: None, errand))
    write_hosts(desk / "hosts.toml", hosts.hosts)
    assert rankboard("setup", "--yes", over=hosts).holds().code in (0, 3)


@pytest.mark.parametrize("claim", [*HAS, "versions"])
@pytest.mark.parametrize(
    "value", [None, 7, [], {}, ESCAPES, {"torch": 7, "torchvision": ESCAPES}], ids=str
)
def test_facts_of_an_environment_that_are_none(
    claim: str, value: Any, rankboard: Run, desk: Path
) -> None:
    def errand(end: End) -> None:
        answers(LACKS | {claim: value} if end.words[0] == "environment" else {"error": "no"})(end)

    hosts = Hosts(acted(lambda end, command: None, errand))
    write_hosts(desk / "hosts.toml", hosts.hosts)
    rankboard("setup", "--yes", over=hosts).holds()


# Plans that hosts keep ----------------------------------------------------------------------------


def kept(**claims: Any) -> str:
    """The text of a plan as a host may keep it."""
    data = json.loads(
        serialize.dump(Plan(RUN, (Host("node1", "127.0.0.1"), Host("node2", "127.0.0.2")), Job()))
    )
    for key, value in claims.items():
        if key.startswith("host_"):
            for host in data["hosts"]:
                host[key.removeprefix("host_")] = value
        else:
            data[key] = value
    return json.dumps(data)


PLANS: dict[str, str] = {
    "a proxy": kept(host_proxy_command="touch PWNED"),
    "a secret": kept(host_env_from=["MY_SECRET_TOKEN"]),
    "a python": kept(host_python="/tmp/mallory"),
    "10^9 ranks": kept(host_slots=10**9),
    "no ranks": kept(host_slots=0),
    "a timeout of NaN": kept(host_timeout=float("nan")),
    "a start that waits for ever": kept(policy={"start_timeout": float("inf")}),
    "restarts without end": kept(policy={"max_restarts": 10**18}),
    "uploads": kept(uploads=[{"source": "/etc", "target": "etc"}], project="x"),
    "a script": kept(work={"script": ["sh", "-c", "touch PWNED"]}),
    "another run": kept(run="../../x"),
    "no hosts": kept(hosts=[]),
    "4,097 hosts": kept(hosts=[{"name": f"n{number}", "address": "x"} for number in range(4_097)]),
    "escapes": kept(run=ESCAPES),
    "deep": "[" * 100_000,
    "nothing": "",
}


def live(plan: str) -> Play:
    """Plays a host that keeps this plan of a run which is live, until it is told to stop."""

    def part(end: End, command: Command | None) -> None:
        if isinstance(command, Stop) and len(end.player.of(Stop)) == 1:
            end.say(host_events.Exited(end.host, -15, "SIGTERM", stopped=True))
        if isinstance(command, Close):
            end.say(host_events.AgentEnded(EndReason.CLOSED))

    def errand(end: End) -> None:
        if end.words[0] == "plan":
            told = {"run": RUN, "plan": plan, "live": True, "begun": True, "now": time.time()}
            end.send(dumps(told).encode() + b"\n")
        elif end.words[0] == "journal":
            end.send(b"".join(end.journal[int(end.words[3]) :]))
        if end.words[0] in ("plan", "journal"):
            end.send(dumps(WHOLE).encode() + b"\n")

    play = acted(part, errand)

    def play_where_it_is(end: End) -> None:
        folders = [word for word in end.words if f"/{RUN}/" in word]
        if all(folder.endswith(f"/{end.host}") for folder in folders):  # else there is none
            play(end)

    return play_where_it_is


@pytest.mark.parametrize("name", ["last", RUN])
@pytest.mark.parametrize(
    "claims",
    [
        {"work": {"job": asdict(Job(batch_size=7))}},
        {"host_slots": 9},
        {"hosts": [asdict(Host("node1", "x"))]},
        {"hosts": [asdict(Host("node2", "x")), asdict(Host("node1", "x"))]},
        {"hosts": [asdict(Host("node1", "x")), asdict(Host("node9", "x"))]},
        {"run": "20991231-others"},
    ],
    ids=["a number", "ranks", "itself alone", "swapped", "strangers", "another run"],
)
def test_a_host_with_another_plan_does_not_keep_stop_from_the_others(
    claims: dict[str, Any],
    name: str,
    rankboard: Run,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(which_run, "confirm", lambda *_, **__: True)
    hosts = Hosts(live(kept(**claims)), live(kept()))
    write_hosts(desk / "hosts.toml", hosts.hosts)
    for player in hosts.players:
        player.journal += lines(player.number, ended(player.number)[:3], time.time())
    done = rankboard("stop", name, over=hosts).holds()
    assert hosts.players[1].of(Stop), done.said
    assert "node1" in done.err


def test_hosts_that_know_a_run_and_say_nothing_more_have_not_stopped_it(
    rankboard: Run, desk: Path
) -> None:
    def play(end: End) -> None:
        if end.words[0] == "plan":
            live(kept())(end)

    hosts = Hosts(play, play)
    write_hosts(desk / "hosts.toml", hosts.hosts)
    done = rankboard("stop", RUN, over=hosts).holds()
    assert done.code == 3
    assert done.err.endswith(
        "rankboard: ranks may still run on node1 and node2: once they answer, repeat rankboard "
        f"stop {RUN}\n"
    )


@pytest.mark.parametrize("name", ["stop", "attach", "logs"])
@pytest.mark.parametrize("case", PLANS)
def test_a_plan_that_a_host_keeps_decides_little(
    name: str, case: str, rankboard: Run, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "topsecret-value-123")

    def part(end: End, command: Command | None) -> None:
        if command is None:
            for event in ended(end.host):
                end.say(event)

    def errand(end: End) -> None:
        if end.words[0] == "plan":
            end.send(dumps({"run": RUN, "plan": PLANS[case], "now": time.time()}).encode() + b"\n")
        elif end.words[0] == "journal":
            end.send(b"".join(lines(end.host, ended(end.host))[int(end.words[3]) :]))
        end.send(dumps(WHOLE).encode() + b"\n")

    hosts = Hosts(acted(part, errand), acted(part, errand))
    for player in hosts.players:
        player.journal += lines(player.number, ended(player.number))
    write_hosts(desk / "hosts.toml", hosts.hosts)
    done = rankboard(*COMMANDS[name], over=hosts).holds()
    ways = {
        (host.address, host.proxy_command, host.python, host.env_from) for host, _ in hosts.opened
    }
    assert ways <= {(host.address, "", "python3", ()) for host in hosts.hosts}
    assert not (desk / "PWNED").exists()
    assert not any(
        "topsecret" in repr(command) for player in hosts.players for _, command in player.heard
    )
    assert not [words for _, words in hosts.opened if words[0] == "receive"], done.said


@pytest.mark.parametrize("name", ["stop", "attach", "logs"])
def test_no_rule_of_a_plan_that_a_host_keeps_is_run(name: str, rankboard: Run, desk: Path) -> None:
    """What reads the lines are the operator's own rules."""
    evil = {"line": r"loss (?:a|aa)+(?P<loss>\d+)x"}
    plan = kept(work={"script": {"words": ["train.py"], "watch": False, "rules": [evil]}})
    (desk / "rankboard.toml").write_text("[[format]]\nline = 'round {step}: {cost}'\n")

    def said(host: int) -> list[events.Event]:
        text = f"loss {'a' * 52} 1.5\nround 3: 0.5"
        return [*ended(host)[:3], host_events.OutputText(host, "stdout", text), *ended(host)[-2:]]

    journals = [lines(host, said(host)) for host in range(2)]
    hosts = kept_by(*journals, plan=plan)
    write_hosts(desk / "hosts.toml", hosts.hosts)
    before = compile_linear.cache_info().misses
    rankboard(*COMMANDS[name], over=hosts).holds()
    assert compile_linear.cache_info().misses <= before + 1, "only the operator's own"
    if name == "attach":
        assert "step 3: cost 0.5" in rankboard("logs", RUN, "--parse").out


# The doctor ---------------------------------------------------------------------------------------


def examined(*said: bytes | events.Event, first: bool = True) -> Play:
    """A host that gives these answers, and hangs up when it is asked for more."""

    def part(end: End, command: Command | None) -> None:
        if command:
            raise EOFError
        if first:
            end.say(HELLO)
        for one in said:
            end.send(one) if isinstance(one, bytes) else end.say(one)
        if not first:
            raise EOFError

    return acted(part, honest)


EXAMINED: dict[str, Play] = {
    "an error": examined(dumps({"error": ESCAPES}).encode("utf-8", "backslashreplace") + b"\n"),
    "a line without end": examined(b"x" * 5_000_000),
    "noise": examined(b"\xff\x00\x1b[2J\n" * 100),
    "another's facts": examined(
        b'{"host":0,"attempt":0,"seq":9,"time":1.0,"event":"ended","reason":"x"}\n'
    ),
    "connections unasked": examined(*[host_events.Connected("x", 1, 0.1, ESCAPES)] * 50),
    "ports unasked": examined(host_events.Reserved(ESCAPES, -1)),
    "checks of its own": examined(launcher.CheckFinished(0, "trust", "ok", ESCAPES)),
    "launched": examined(host_events.Launched((0, 1), (0, 1))),
    "no facts": examined(first=False),
    "an address that is none": examined(
        replace(HELLO, interfaces=(("eth0", ESCAPES, 99),)), first=False
    ),
}


@pytest.mark.parametrize("case", EXAMINED)
def test_a_doctor_of_a_host_that_means_harm(case: str, rankboard: Run, desk: Path) -> None:
    hosts = Hosts(acted(trains, honest), EXAMINED[case])  # type: ignore[arg-type]
    write_hosts(desk / "hosts.toml", hosts.hosts)
    done = rankboard("doctor", over=hosts).holds()
    assert done.code != 0
    assert "node2" in done.said
