"""Run directories from somebody else: with what they claim, and links in place of their files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from remote.cluster.hosts import Host
from remote.plan import serialize
from remote.plan.plan import Plan
from tests.kit.scripted_hosts import End, Hosts, Play, acted
from tests.kit.stage import HELLO
from training.agent import WHOLE
from training.job import Job
from training.wire import events
from training.wire.commands import Close, Command
from training.wire.enums import EndReason
from training.wire.events import PREFIX, Event, Record, encode, to_object
from training.wire.host_events import AgentEnded, Exited, Launched, OutputText, Spawned
from training.wire.jsonl import dumps
from training.wire.rank_events import Finished

RUN = "20261120-093000-ddp-lenet5-3f9a"
HOSTS = (Host("node1", "127.0.0.1"), Host("node2", "127.0.0.2"))
PLAN = serialize.dump(Plan(RUN, HOSTS, Job()))


def ended(host: int) -> tuple[Event, ...]:
    """What the agent of a host with one rank says of a run that finished."""
    done = PREFIX + dumps(to_object(Finished(host, 1, 1, 1.0)))
    return (
        replace(HELLO, hostname=f"node{host + 1}"),
        Launched((host,), (0, 1)),
        Spawned(host, 1),
        OutputText(host, "stdout", f"hello from rank {host}"),
        OutputText(host, "stdout", done),
        Exited(host, 0),
        AgentEnded(EndReason.ALL_ENDED),
    )


def lines(host: int, said: Sequence[Event], began: float = 1_000.0) -> list[bytes]:
    """The journal of a host that said these."""
    return [
        encode(Record(host, 0, seq, began + seq / 10, one)).encode()
        for seq, one in enumerate(said, 1)
    ]


def kept(*journals: Sequence[bytes], plan: str = "") -> Hosts:
    """Two honest hosts, or with these journals, on which the run has ended or goes on."""
    found = journals or [lines(host, ended(host)) for host in range(2)]
    hosts = Hosts(*(keeper(plan or PLAN) for _ in found))
    for player, journal in zip(hosts.players, found, strict=True):
        player.journal += journal
    return hosts


def keeper(plan: str) -> Play:
    """Plays a host that keeps this plan: its agent, and the errands that ask for plan and
    journal."""

    def part(end: End, command: Command | None) -> None:
        if isinstance(command, Close):
            end.say(AgentEnded(EndReason.CLOSED))

    def errand(end: End) -> None:
        match end.words[0]:
            case "journal":
                after = int(end.words[3])
                end.send(b"".join(end.journal[after:]))
            case "plan":
                end.send(dumps({"run": RUN, "plan": plan, "now": 1_000.0}).encode() + b"\n")
            case "environment" | "install" | "receive" | "send":
                return
        end.send(dumps(WHOLE).encode() + b"\n")

    return acted(part, errand)


def recorded(
    runs_dir: Path,
    of: Sequence[Host] = (),
    said: Sequence[bytes] | None = None,
    name: str = RUN,
    **claims: Any,
) -> Path:
    """The directory of a run on two hosts. `claims`: fields of its plan.json, or of every host
    there where the name begins with `host_`; `said` are the lines of its events.jsonl, of a run
    under way where not given."""
    folder = runs_dir / name
    (folder / "logs").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    runs_dir.chmod(0o700)
    plan = Plan(name, tuple(of) or HOSTS, Job())
    data = json.loads(serialize.dump(plan))
    for key, value in claims.items():
        if key.startswith("host_"):
            for host in data["hosts"]:
                host[key.removeprefix("host_")] = value
        else:
            data[key] = value
    (folder / "plan.json").write_text(json.dumps(data))
    if said is None:
        said = [line for host in range(2) for line in lines(host, ended(host)[:4])]
    (folder / "events.jsonl").write_bytes(b"".join(said))
    return folder


def session_says(*said: Event, seq: int = 1) -> list[bytes]:
    """Records of the session."""
    return [
        encode(Record(events.SESSION, 0, number, 1_000.0 + number / 100, one)).encode()
        for number, one in enumerate(said, seq)
    ]
