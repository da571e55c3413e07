"""A transport is one file: what the rest of the program needs of it comes from its `TRANSPORT`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import remote.transport
from remote.cluster import hosts as cluster_hosts
from remote.cluster.hosts import TRANSPORTS, Host, host_keys
from remote.cluster.load import load
from remote.doctor import doctor
from remote.events import HostPhaseChanged
from remote.plan import serialize
from remote.plan.plan import Plan
from remote.run.findings.start_waits import waiting
from remote.transport import HostCommand, Unreachable, registry
from remote.transport.failure import Failure, FailureCause
from remote.transport.registry import Transports
from tests.kit.histories import History
from training.job import Job
from tui.commands.trust import Trusting

SOURCE = """
from remote.transport import TransportKind, Unreachable
from remote.transport.failure import FailureCause, Failure


class Queue:
    def open(self, host, program, progress):
        if host.address == "full":
            failure = Failure(FailureCause.REFUSED, "the queue is full", "try later")
            raise Unreachable(host.name, failure)
        return host.name, program.argv()


TRANSPORT = TransportKind(
    make=lambda enter: Queue(),
    reached="in the queue",
    by_hand=lambda host, words: f"ask {host.name}",
)
"""


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A transport of one file, in a folder of its own; gives its name."""
    (tmp_path / "queue_for_tests.py").write_text(SOURCE)
    remote.transport.__path__.append(str(tmp_path))
    names = [*TRANSPORTS, "queue_for_tests"]
    monkeypatch.setattr(cluster_hosts, "TRANSPORTS", tuple(names))
    (transport_key,) = (key for key in host_keys() if key.name == "transport")
    monkeypatch.setitem(transport_key.metadata["schema"], "enum", names)
    yield "queue_for_tests"
    remote.transport.__path__.remove(str(tmp_path))
    sys.modules.pop("remote.transport.queue_for_tests", None)


class Quiet:
    def phase(self, name: str) -> None: ...

    def said(self, text: str) -> None: ...


def test_the_transports() -> None:
    for name in TRANSPORTS:
        registry.load_transport(name)
    with pytest.raises(LookupError, match="no transport is called 'deploy'"):
        registry.load_transport("deploy")


@pytest.mark.parametrize("name", ["", "..", "ssh.keys", "../cluster/hosts", "registry"])
def test_a_name_leads_to_no_other_file(name: str) -> None:
    with pytest.raises(LookupError, match="no transport is called"):
        registry.load_transport(name)


def test_a_file_makes_a_transport(queue: str, tmp_path: Path) -> None:
    lines = f'[defaults]\ntransport = "{queue}"\n[[host]]\nname = "a"\n[[host]]\nname = "full"\n'
    (tmp_path / "hosts.toml").write_text(lines)
    hosts = load(tmp_path / "hosts.toml", tmp_path / "none").hosts
    reach = Transports(hosts)
    assert reach.open(hosts[0], HostCommand(("runs",)), Quiet()) == ("a", ("runs",))
    with pytest.raises(Unreachable, match="full: the queue is full; try later"):
        reach.open(hosts[1], HostCommand(("runs",)), Quiet())
    assert not registry.is_here(hosts)


def test_each_host_is_reached_by_its_own_transport(queue: str, tmp_path: Path) -> None:
    here = Host("b", "b", python="/no/such/python", transport="local")
    reach = Transports([Host("a", "a", transport=queue), here])
    assert reach.open(Host("c", "c", transport=queue), HostCommand(("runs",)), Quiet())[0] == "c"
    with pytest.raises(Unreachable, match="b: cannot start /no/such/python"):
        reach.open(here, HostCommand(("runs",)), Quiet())


def test_a_plan_cannot_name_another_module() -> None:
    text = serialize.dump(Plan("a-run", (Host("a", "a"),), Job()))
    assert serialize.parse(text).hosts[0].transport == "ssh"
    for name in ("../ssh", "os", "ssh.keys", ""):
        with pytest.raises(ValueError, match="transport"):
            serialize.parse(text.replace('"ssh"', json.dumps(name)))


def test_messages_have_the_words_of_the_transport(queue: str) -> None:
    plan = Plan("a-run", (Host("a", "a", transport=queue),), Job())
    state = History(plan).session(HostPhaseChanged(0, "deploying")).state()
    (wait,) = waiting(state, state.now + 12)
    assert wait.text() == "waiting for a: in the queue, the code is on its way (12 s)"
    _, login = doctor.check_facts(
        plan, [None], [0.0], [Failure(FailureCause.TIMEOUT, "no answer within 5 s")]
    )
    assert (login.check, login.text, login.advice) == (
        "login",
        "no answer within 5 s",
        "try it by hand: ask a",
    )


def test_a_transport_without_host_keys_has_none_to_trust(
    queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host = Host("a", "a", transport=queue)
    assert Trusting(registry.load_host_keys([host]), replace=False).trust_hosts([host]) == [0]
    assert capsys.readouterr().err == f"rankboard: a: transport {queue} has no host keys\n"


def test_hosts_are_here_when_all_of_them_are() -> None:
    local, ssh = Host("a", "a", transport="local"), Host("b", "b")
    assert registry.is_here([local, local])
    assert not registry.is_here([local, ssh])
    assert not registry.is_here([])
