"""What a run gives away: secrets, files, sockets, and the terminal, which text of a host must not
reach as it is."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from remote import events as launcher
from remote.cluster.hosts import Host, HostsError
from remote.cluster.load import load
from remote.plan import serialize
from remote.plan.dry_run import dry_run
from remote.plan.environment import forwarded
from remote.plan.place import place
from remote.plan.plan import Plan, PlanError
from remote.run.apply import apply_record
from remote.transport.ssh.known_hosts import find_known_keys
from remote.transport.ssh.transport import SshTransport
from tests.kit import labs
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.agents import Host as AgentHost
from tests.kit.agents import python
from tests.kit.histories import History, raised, said
from tests.kit.histories import plan as planned
from tests.kit.launches import LONG, Launched, launch
from tests.kit.looks import screen_text
from tests.kit.sshd import Sshd
from training.agent.host.redaction import Redaction
from training.agent.ranks.pipes import CHUNK, LineDecoder, Pipe
from training.job import Job
from training.wire import host_events, rank_events
from training.wire.enums import EndReason, Reach
from training.wire.host_events import AGENT, Hello, OutputText, Spawned, Stack
from tui.app.app import RankboardApp
from tui.commands.trust import Trusting
from tui.kit.open_runs import LaunchRequest
from tui.run import live_printer as live
from tui.run.json_printer import JsonPrinter
from tui.run.plain_printer import PlainPrinter
from tui.run.printer import RunPrinter

TOKEN, NAME = 'hunter2-"quoted"-ünder', "LAB_TOKEN"


# Variables of the operator ------------------------------------------------------------------------


def forwarding(*names: str) -> Plan:
    return Plan(
        "a-run",
        (Host("node1", "n1", env=(("MODE", "on"),), env_from=names), Host("node2", "n2")),
        Job(),
    )


def test_values_reach_the_placements_of_their_hosts_and_nothing_that_is_shown() -> None:
    plan = forwarding(NAME)
    values = forwarded(plan, {NAME: TOKEN, "OTHER": "x"})
    (first,), (second,) = place(plan, (None, None), "n1", 1, values)
    assert (dict(first.env)[NAME], dict(first.env)["MODE"], first.secret) == (TOKEN, "on", (NAME,))
    assert not {NAME, "MODE"} & dict(second.env).keys()
    assert f"MODE=on {NAME}=[{NAME}] RANK=0" in dry_run(plan)
    assert "hunter2" not in dry_run(plan) + serialize.dump(plan) + repr(plan)
    assert serialize.parse(serialize.dump(plan)) == plan


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "which your environment does not have: export LAB_TOKEN=…"),
        ({NAME: "\udcff"}, "is no text in UTF-8"),
    ],
)
def test_a_variable_that_cannot_be_handed_on_is_a_mistake_before_the_start(
    environ: dict[str, str], said: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        forwarded(forwarding(NAME), environ)
    with pytest.raises(PlanError, match="node1: env_from names LAB_TOKEN"):
        place(forwarding(NAME), (None, None), "n1", 1)


def test_a_hosts_variables_go_before_those_of_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(
        '[defaults]\nenv = { A = "1", B = "2" }\nenv_from = ["C", "D"]\n[[host]]\nname = "n1"\n'
        '[[host]]\nname = "n2"\nenv = { B = "3", C = "4" }\nenv_from = ["A", "E"]\n'
    )
    one, two = load(tmp_path / "hosts.toml", tmp_path / "none").hosts
    assert (one.env, one.env_from) == ((("A", "1"), ("B", "2")), ("C", "D"))
    assert (two.env, two.env_from) == ((("B", "3"), ("C", "4")), ("D", "A", "E"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("env = { A = 1 }", 'env = {"A": 1} is wrong: write names and texts in quotes'),
        ('env = { "A B" = "1" }', "is wrong: write names and texts in quotes"),
        ('env_from = "A"', 'env_from = "A" is wrong: write names of variables'),
        ('env_from = ["A=1"]', "is wrong: write names of variables"),
        (
            'env = { OMP_NUM_THREADS = "2" }',
            "env: OMP_NUM_THREADS follows from a key of its own: set threads instead",
        ),
        ('env_from = ["RANK"]', "env_from: RANK follows from the rank's place: take it out"),
        (
            'env = { A = "1" }\nenv_from = ["A"]',
            "hosts.toml: line 4: host 1 (n1): A is in env and in env_from: keep one",
        ),
    ],
)
def test_mistakes_in_variables(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(f'[[host]]\nname = "n1"\n{line}\n')
    with pytest.raises(HostsError, match=re.escape(said)):
        load(tmp_path / "hosts.toml", tmp_path / "none")


# What ranks print ---------------------------------------------------------------------------------


def test_a_secret_that_a_rank_prints_is_in_no_record_and_on_no_disk(host: AgentHost) -> None:
    code = (
        f"import os, json; t = os.environ['{NAME}']; print(t); print('in', t * 2, json.dumps(t, "
        "ensure_ascii=False)); "
    )
    code += (
        f"print('x' * {CHUNK - 10} + t + 'y' * {CHUNK})"  # a line that is cut in the middle of it
    )
    line = host.follow()
    line.start(replace(python(code, **{NAME: TOKEN, "MODE": "hunter2"}), secret=(NAME,)))
    line.exits(1)
    first, second, *pieces = line.text().split("\n")
    assert (first, second) == (f"[{NAME}]", f'in [{NAME}][{NAME}] "[{NAME}]"')
    assert "".join(pieces) == f"{'x' * (CHUNK - 10)}[{NAME}]{'y' * CHUNK}"
    records = line.close()
    assert "hunter2" not in repr(records)
    assert_private(host.folder, "hunter2")
    assert not list(host.folder.glob("start-*"))


def test_what_is_hidden() -> None:
    redaction = Redaction()
    ranks = [
        replace(
            python("", A="abcdefgh", B="abcdefghij", C="short", D="line one\nline two\n"),
            secret=tuple("ABCD"),
        )
    ]
    text = OutputText(0, "stdout", "abcdefghij abcdefgh short line two")
    assert redaction.clean([text]) == [text]
    redaction.learn(ranks)
    assert redaction.clean([text, Stack(0, "py-spy", "abcdefgh"), Spawned(0, 1)]) == [
        OutputText(0, "stdout", "[B] [A] short [D]"),
        Stack(0, "py-spy", "[A]"),
        Spawned(0, 1),
    ]


@pytest.mark.parametrize(
    "write",
    [str, repr, ascii, json.dumps, lambda text: repr(f"'{text}"), lambda text: repr([text])],
)
@pytest.mark.parametrize(
    "secret", ['{"key": "-----BEGIN\nKEY-----"}', "both' and\"\\", "it's a secret", "schlüssel\t1"]
)
def test_secrets_are_hidden_as_python_writes_them(secret: str, write: Callable[[str], str]) -> None:
    redaction = Redaction()
    redaction.learn([replace(python("", A=secret), secret=("A",))])
    shown = redaction.hide(write(secret))
    assert shown.replace("[A]", "").strip("'\"[]\\") == ""


def test_no_secret_is_cut_in_two_where_a_long_line_is() -> None:
    """A line of several pieces, read in blocks of any size, with secrets at every place where it
    could be cut."""
    chance, secrets = (
        random.Random(0),
        {"A": "hunter2-SECRET-value-0123456789", "B": "hunter2-SECRET", "C": "x" * 9},
    )
    secrets |= {"D": "é" * 15_000}  # as JSON writes it longer than a piece
    redaction = Redaction()
    redaction.learn([replace(python("", **secrets), secret=tuple(secrets))])
    for several in (("A",), ("B", "A"), ("C",), ("D", "A")):
        words = chance.choices(
            [*(secrets[name] for name in several), "-" * 40, "word "],
            k=25_000 if "D" not in several else 100,
        )
        line = "".join(words).encode()
        lines, texts, at = LineDecoder(redaction), list[str | None](), 0
        while at < len(line):
            size = chance.choice([1, 100, 20_000, CHUNK])
            texts.append(lines.feed(line[at : at + size]))
            at += size
        found = [redaction.hide(text) for text in (*texts, lines.end()) if text is not None]
        assert "".join(found) == redaction.hide(line.decode())
        assert all(len(text) <= 3 * CHUNK for text in found)
        assert len(found) > 1


def test_a_flood_that_is_given_up_amid_a_secret_shows_no_part_of_it(tmp_path: Path) -> None:
    redaction = Redaction()
    redaction.learn([replace(python("", A="0123456789"), secret=("A",))])
    flood = tmp_path / "flood"  # a file never keeps its reader waiting
    flood.write_bytes(b"x" * ((1 << 20) - 5) + b"0123456789" + b"x" * CHUNK)
    pipe = Pipe(os.open(flood, os.O_RDONLY), 0, "stdout", redaction)
    assert set("".join(text.text for text in pipe.finish())) == {"x"}


def test_a_command_that_is_not_understood_is_not_repeated(host: AgentHost) -> None:
    line = host.follow()
    assert line.process.stdin
    line.process.stdin.write(b'{"command":"begin","env":[["A","hunter2"]]}\n')
    line.process.stdin.flush()
    line.wait_for(OutputText, 1, AGENT)
    assert "hunter2" not in repr(line.close())


# A run under way ----------------------------------------------------------------------------------


def test_a_run_gives_away_neither_secrets_nor_files_nor_ports(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, TOKEN)
    hosts = tuple(replace(node, env_from=(NAME,)) for node in sshd.make_hosts(1, slots=2))
    folder = tmp_path / "operator"
    folder.mkdir()
    with running(launch(folder, "--hosts", str(sshd.hosts_toml(hosts)), *LONG)) as run:
        agents = [psutil.Process(event["pid"]) for event in run.events("hello")]
        port = rendezvous(run)[1]
        pids = [event["pid"] for event in run.events("spawned", 2)]
        run.events("step", 2)
        holders, names = with_secret(TOKEN)
        assert holders == {run.process.pid}
        assert {"rankboard-guard", "rankboard-agent", "rank 0", "rank 1"} <= names
        guards = [agent.parent() for agent in agents]
        assert not [address for process in (*agents, *guards) for address in listening(process.pid)]
        sockets = {pid: listening(pid) for pid in pids}
        assert {address for addresses in sockets.values() for address, _ in addresses} == {
            "127.0.0.1"
        }
        assert sum(number == port for addresses in sockets.values() for _, number in addresses) == 1
    for root in (folder / "runs", *(Path(node.workdir) / "runs" for node in hosts)):
        assert_private(root, "hunter2")
    assert "hunter2" not in run.stderr()


@pytest.mark.skipif(bool(labs.refused()), reason="no lab can be made here")
def test_ranks_listen_on_the_chosen_interface_only(tmp_path: Path) -> None:
    """In a lab, which is gone with the run."""
    before = labs.links()
    with running(launch(tmp_path, "--local", "2", "--slots", "1", "--link", "1gbit", *LONG)) as run:
        assert {event["hostname"] for event in run.events("hello", 2)} == {"node1", "node2"}
        address, port = rendezvous(run, 2)
        ranks = sorted(run.events("spawned", 2), key=lambda event: int(event["rank"]))
        run.events("step", 2)
        first, second = (
            listening(from_here(rank["pid"], f"rank {rank['rank']}")) for rank in ranks
        )
        assert (address, port) in first
        assert {where for where, _ in first} == {address}
        (other,) = {where for where, _ in second}
        assert other.rpartition(".")[0] == address.rpartition(".")[0]
        assert other != address
    assert "rankboard: the 2 hosts share " in run.stderr()
    assert labs.links() == before


def rendezvous(run: Launched, hosts: int = 1) -> tuple[str, int]:
    """Where the ranks of a run on so many hosts meet: address and port."""
    (first,) = (event for event in run.events("reserved", hosts) if event["host"] == "node1")
    return first["address"], first["port"]


@contextlib.contextmanager
def running(run: Launched) -> Iterator[Launched]:
    """Ends it."""
    try:
        yield run
    finally:
        run.process.terminate()
        assert run.end() in (130, 0)


def with_secret(secret: str) -> tuple[set[int], set[str]]:
    """The processes that have the secret on their command line or in their environment, and the
    names of all that were seen."""
    holders, names = set(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            names.add((folder / "comm").read_text().strip())
            if (
                secret.encode()
                in (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            ):
                holders.add(int(folder.name))
    return holders, names


def listening(pid: int) -> set[tuple[str, int]]:
    """Address and port of each TCP socket on which a process listens."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for file in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{file}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                found.add((_address(address), int(port, 16)))
    return found


def _address(text: str) -> str:
    """An address of /proc/net: words of 32 bits, each by the machine's own byte order."""
    data = b"".join(
        bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)
    )
    return ".".join(map(str, data)) if len(data) == 4 else data.hex()


def from_here(pid: int, name: str) -> int:
    """The process that calls itself `pid` in a PID namespace of its own."""
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(OSError):
            (numbers,) = re.findall(r"NSpid:(.*)", Path(f"/proc/{process.pid}/status").read_text())
            if process.info["name"] == name and int(numbers.split()[-1]) == pid:
                return process.pid
    raise AssertionError(f"no {name} with pid {pid}")


def assert_private(root: Path, secret: str) -> None:
    """All below the folder is for its owner only, and has no secret in it."""
    found = [root, *root.rglob("*")]
    assert len(found) > 1
    for path in found:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077 or path.name == "runs", path
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


# The terminal -------------------------------------------------------------------------------------

EVIL = "gone\r\x1b]0;owned\x07\x1b[31m[red]evil[/]\u202e\u2066\x9b31m\x7f"
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def evil() -> History:
    """Two hosts of which each text that they can say is meant to harm."""
    history = History(planned(2))
    hello = Hello(
        EVIL,
        EVIL,
        1,
        EVIL,
        EVIL,
        EVIL,
        EVIL,
        2.0,
        1,
        EVIL,
        EVIL,
        (EVIL,),
        ((EVIL, EVIL, 8),),
        EVIL,
        EVIL,
        EVIL,
    )
    history.session(
        launcher.HostPhaseChanged(0, Reach.CONNECTING),
        launcher.RemarkMade(0, EVIL),
        launcher.CheckFinished(1, EVIL, "failed", EVIL, EVIL),
    )
    history.say(
        0,
        hello,
        host_events.Reserved(EVIL, 0, EVIL),
        host_events.Connected(EVIL, 1, 0.1, EVIL),
        OutputText(AGENT, "stderr", EVIL),
    )
    history.say(1, hello, host_events.Reserved(EVIL, 29_500), host_events.Launched((1,)))
    begun = rank_events.Started(0, 100, 2, EVIL, EVIL, EVIL, 1, 61_706, 40, 10, 640, 100)
    history.rank(0, begun, said(0, EVIL, "stdout"), host_events.Stack(0, EVIL, EVIL))
    history.session(launcher.ConnectionLost(1, EVIL), launcher.HostLost(1, EVIL, True)).rank(
        0, *raised(0, f"ValueError: {EVIL}")
    )
    history.rank(0, host_events.Exited(0, -9, EVIL)).say(
        0, host_events.AgentEnded(EndReason.AGENT_DIED, EVIL)
    )
    return history.session(
        launcher.StartRefused(1, EVIL), launcher.Stopping(EVIL, False), launcher.SessionClosed()
    )


def printed(kind: Callable[[io.StringIO, io.StringIO], RunPrinter]) -> str:
    out = io.StringIO()
    history = evil()
    show(history, kind(out, out))
    return out.getvalue()


def show(history: History, printer: RunPrinter) -> None:
    state = History(history.plan).state()
    for record in history.records:
        apply_record(state, record)
        printer.batch([record], state)
    printer.end(state)


def assert_harmless(text: str) -> None:
    assert "evil" in text
    found = FORBIDDEN.search(text)
    assert not found, repr(text[max(0, found.start() - 200) : found.end() + 50])


@pytest.mark.parametrize("verbose", [False, True])
def test_no_text_of_a_host_reaches_plain_output_as_it_is(verbose: bool) -> None:
    assert_harmless(printed(partial(PlainPrinter, verbose=verbose)))


def test_json_escapes_what_a_terminal_acts_on_and_loses_nothing() -> None:
    text = printed(partial(JsonPrinter, folder=Path("/runs/a-run")))
    assert_harmless(text)
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert next(line for line in lines if line["event"] == "hello")["hostname"] == EVIL


def test_no_text_of_a_host_reaches_the_live_table_as_it_is() -> None:
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=200,
        height=40,
        markup=False,
        highlight=False,
        emoji=False,
    )
    with live.live_printer(console) as printer:
        show(evil(), printer)
    assert isinstance(console.file, io.StringIO)
    drawn = re.sub(
        r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", console.file.getvalue()
    )  # what rich itself writes
    assert_harmless(drawn)
    assert "\x1b" not in drawn
    assert "[red]evil[/]" in drawn


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_no_text_of_a_host_reaches_the_dashboard_as_it_is(size: tuple[int, int]) -> None:
    sessions: list[ActedSession] = []

    def begin(plan: Plan) -> ActedSession:
        sessions.append(ActedSession(plan))
        return sessions[-1]

    lab = cluster(2, 1)
    app = RankboardApp(LaunchRequest(lab, lab, Job(), make_plan, begin, at_once=True))
    async with app.run_test(size=size) as pilot:
        for record in evil().records[:-1]:
            sessions[0].say(record.host, record.event)
        sessions[0].close()
        await until(pilot, lambda: not app.runs.live)
        app.tick()
        await until(pilot, lambda: "cause" in screen_text(app) or "evil" in screen_text(app))
        assert_harmless(screen_text(app))


# Host keys ----------------------------------------------------------------------------------------

Answer = Callable[[str], None]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """What a person will type at a terminal."""

    def answers(text: str) -> None:
        typed = io.StringIO(text)
        monkeypatch.setattr(typed, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return answers


def trust(*hosts: Host, replaces: bool = False, config: Path = Path("/none")) -> list[int]:
    return Trusting({"ssh": SshTransport(ssh_config=config)}, replaces).trust_hosts(hosts)


def test_an_unknown_key_is_shown_and_recorded_once_a_person_agrees(
    sshd: Sshd, answers: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    (node,) = sshd.make_hosts(1)
    sshd.known_hosts.write_text("# mine")
    answers("no\n")
    assert trust(node) == [2]
    assert sshd.known_hosts.read_text() == "# mine"
    (fingerprint,) = re.findall(
        r"node1 \(\[127.0.0.1\]:\d+\) shows ED25519 (SHA256:\S+)", capsys.readouterr().err
    )
    answers(f"{fingerprint}\n")
    assert trust(node) == [0]
    (known,) = find_known_keys(node.address, node.port)
    assert sshd.node("node1").public_key == f"{known.kind} {known.key}"
    answers("")
    assert trust(node) == [0]
    assert "is known: line 2 of" in capsys.readouterr().err


def test_a_changed_key_is_recorded_only_where_that_is_asked_for(
    sshd: Sshd, answers: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    (node,) = sshd.make_hosts(1)
    before = f"[{node.address}]:{node.port},other {sshd.node('node2').public_key}\n"
    sshd.known_hosts.write_text(before)
    answers("yes\n")
    assert trust(node) == [2]
    said = capsys.readouterr().err
    assert re.search(
        r"CHANGED.*\n.*was ED25519 SHA256:\S+ \(line 1 of .*\n.*now ED25519 "
        r"SHA256:\S+\n.*--replace",
        said,
    )
    answers("no\n")
    assert trust(node, replaces=True) == [2]
    assert sshd.known_hosts.read_text() == before
    answers("yes\n")
    assert trust(node, replaces=True) == [0]
    assert sshd.known_hosts.read_text().splitlines()[0] == f"other {sshd.node('node2').public_key}"
    assert [known.key for known in find_known_keys(node.address, node.port)] == [
        sshd.node("node1").public_key.split()[1]
    ]


def test_keys_of_jump_hosts_are_asked_for_first_and_names_are_hashed(
    sshd: Sshd, answers: Answer, tmp_path: Path
) -> None:
    gate = sshd.node("node2")
    node = replace(sshd.make_hosts(3)[2], jump=f"{gate.address}:{gate.port}")
    sshd.known_hosts.unlink()
    (tmp_path / "config").write_text("Host 127.*\n HashKnownHosts yes\n")
    answers("yes\nyes\n")
    assert trust(node, replace(node, name="again"), config=tmp_path / "config") == [0, 0]
    lines = sshd.known_hosts.read_text().splitlines()
    assert [line[:3] for line in lines] == ["|1|", "|1|"]
    assert find_known_keys(gate.address, gate.port)
    assert find_known_keys(node.address, node.port)
    assert stat.S_IMODE(sshd.known_hosts.stat().st_mode) == 0o600


def test_a_line_for_many_hosts_and_a_revoked_key_are_left_alone(
    sshd: Sshd, answers: Answer, capsys: pytest.CaptureFixture[str]
) -> None:
    (node,) = sshd.make_hosts(1)
    for line, why in (
        (f"[127.0.0.*]:{node.port} {sshd.node('node2').public_key}\n", "change it by hand"),
        (
            f"@revoked [127.0.0.1]:{node.port} {sshd.node('node1').public_key}\n",
            "do not trust this host",
        ),
    ):
        sshd.known_hosts.write_text(line)
        answers("yes\n")
        assert trust(node, replaces=True) == [2]
        assert why in capsys.readouterr().err
        assert sshd.known_hosts.read_text() == line
