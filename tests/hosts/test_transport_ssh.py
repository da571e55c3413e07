"""The SSH transport against a real sshd: the line, the deploy, the ways there, and every message of
a way that fails."""

from __future__ import annotations

import gc
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import psutil
import pytest
from msgspec import structs

from remote.cluster.hosts import Host
from remote.transport import AgentCommand, Unreachable
from remote.transport.failure import Deadline
from remote.transport.ssh import TRANSPORT, login, sockets
from remote.transport.ssh.channel import SshChannel
from remote.transport.ssh.keys import UserKeys
from remote.transport.ssh.transport import SshTransport
from tests.kit.sshd import Daemon, Sshd, free_port, keygen
from tests.kit.standin import AN_AGENT, Heard, Reader, package
from tests.kit.wait import wait
from training.wire.commands import Close, encode
from training.wire.enums import EndReason
from training.wire.events import decode
from training.wire.host_events import AgentEnded, Hello

Open = Callable[..., SshChannel]


@pytest.fixture
def transport(tmp_path: Path) -> SshTransport:
    return SshTransport(package(tmp_path))


@pytest.fixture
def open_line(sshd: Sshd, transport: SshTransport) -> Iterator[Open]:
    """Opens a line to node1, or to another host, and closes it after the test."""
    lines: list[SshChannel] = []

    def open_line(
        host: Host | None = None, heard: Heard | None = None, way: SshTransport = transport
    ) -> SshChannel:
        lines.append(way.open(host or sshd.make_hosts(1)[0], AN_AGENT, heard or Heard()))
        return lines[-1]

    yield open_line
    for line in lines:
        line.close()


@pytest.fixture
def refusal(sshd: Sshd, transport: SshTransport) -> Callable[..., str]:
    """Why node1, changed so, cannot be reached."""

    def refusal(way: SshTransport = transport, **changes: object) -> str:
        with pytest.raises(Unreachable) as caught:
            way.open(replace(sshd.make_hosts(1)[0], **changes), AN_AGENT, Heard())  # type: ignore[arg-type]
        text = str(caught.value)
        assert text.startswith("node1: ")
        assert len(text.splitlines()) <= 2
        return text.removeprefix("node1: ")

    return refusal


# The line


def test_round_trip(open_line: Open, sshd: Sshd) -> None:
    heard = Heard()
    line = open_line(heard=heard)
    reader = Reader(line)
    hello = reader.hello()
    line.write(b"one\ntwo\n")
    assert [next(reader), next(reader)] == ["echo one", "echo two"]
    assert (heard.phases, heard.texts) == (["connecting", "starting", "deploying", "starting"], [])
    assert hello["argv"] == list(AN_AGENT.argv())
    assert hello["umask"] != 0o77
    assert str(hello["code"]).startswith(sshd.make_hosts(1)[0].workdir)
    assert line.close() == ""
    assert line.read() == b""
    with pytest.raises(OSError, match="closed"):
        line.write(b"x")


@pytest.mark.parametrize("error", [EOFError, OSError, paramiko.SSHException])
def test_a_connection_that_ends_amid_an_answer_ends_the_line(error: type[Exception]) -> None:
    """What has come is acknowledged over the connection, which may have ended by then."""

    def recv(_: int) -> bytes:
        raise error

    channel = SimpleNamespace(recv=recv, recv_stderr=lambda _: b"", exit_status_ready=lambda: True)
    transport = SimpleNamespace(is_active=lambda: True)
    connection = SimpleNamespace(transport=transport, close=lambda: None)
    line = SshChannel(connection, channel)  # type: ignore[arg-type]
    assert line.read() == b""
    assert line.close() == ""


def test_code_is_sent_once(open_line: Open) -> None:
    open_line().close()
    heard = Heard()
    Reader(open_line(heard=heard)).hello()
    assert heard.phases == ["connecting", "starting"]


def test_code_that_was_changed_is_sent_again(open_line: Open) -> None:
    line = open_line()
    agent = Path(str(Reader(line).hello()["code"]))
    line.close()
    agent.write_text("raise SystemExit('not what was sent')")
    heard = Heard()
    assert Reader(open_line(heard=heard)).hello()["code"] == str(agent)
    folder = agent.parent.parent.parent
    assert heard.phases == ["connecting", "starting", "deploying", "starting"]
    assert heard.texts == [f"the code in {folder} was changed since it was sent; it was sent again"]


def test_a_workdir_that_others_may_write_is_refused(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert refusal(workdir=str(tmp_path / "open")).startswith(
        f"its code is not run: other users may write {tmp_path}/open"
    )


def test_many_hosts_and_launchers_at_once(open_line: Open, sshd: Sshd) -> None:
    hosts = sshd.make_hosts(4) * 3
    with ThreadPoolExecutor(len(hosts)) as pool:
        lines = list(pool.map(open_line, hosts))
    for line in lines:
        Reader(line).hello()
    for host in hosts:
        assert len(os.listdir(Path(host.workdir) / "code")) == 1


def test_workdir_with_spaces_and_home(open_line: Open, sshd: Sshd) -> None:
    line = open_line(replace(sshd.make_hosts(1)[0], workdir="~/a 'b' \"c\" $HOME !d"))
    assert str(Reader(line).hello()["code"]).startswith(
        f"{sshd.far_home}/a 'b' \"c\" $HOME !d/code/"
    )


def test_login_shell_that_prints(open_line: Open, sshd: Sshd) -> None:
    (sshd.far_home / ".bashrc").write_text(
        "echo 'Welcome to the lab'; echo warning >&2; printf 'rank'\n"
    )
    heard = Heard()
    line = open_line(heard=heard)
    Reader(line).hello()
    assert heard.texts == ["Welcome to the lab", "rank"]
    assert line.close() == ""  # it explains nothing that comes later


def test_what_is_said_long_after_a_login_shell_has_spoken_is_heard(
    open_line: Open, sshd: Sshd
) -> None:
    (sshd.far_home / ".bashrc").write_text("echo warning >&2\n")
    line = open_line(replace(sshd.make_hosts(1)[0], timeout=1.0))
    reader = Reader(line)
    reader.hello()
    time.sleep(1.2)  # longer than the timeout that the streams had
    line.write(b"stderr 3\nexit 4\n")
    assert next(reader) == "echo stderr 3"
    assert line.read() == b""
    assert line.close() == "eee"


def test_close_is_bounded_where_the_far_end_hangs(open_line: Open, sshd: Sshd) -> None:
    line = open_line()
    Reader(line).hello()
    connections = sshd.node("node1").connections()
    for process in connections:
        process.suspend()
    assert connections
    line.close()


def test_far_end_that_is_killed(open_line: Open, sshd: Sshd) -> None:
    line = open_line()
    Reader(line).hello()
    sshd.node("node1").cut()
    assert line.read() == b""
    assert line.close().startswith("the connection broke: ")
    with pytest.raises(OSError, match=r"."):
        line.write(b"x")


def test_nothing_is_left(open_line: Open, sshd: Sshd) -> None:
    open_line().close()
    here = psutil.Process()
    fds, threads = here.num_fds(), threading.active_count()
    line = open_line()
    pid = int(str(Reader(line).hello()["pid"]))
    line.close()
    wait(
        lambda: here.num_fds() <= fds and threading.active_count() <= threads, "the end of threads"
    )
    wait(
        lambda: not psutil.pid_exists(pid) and not sshd.node("node1").connections(),
        "the end of the far side",
    )


def test_the_real_agent(sshd: Sshd) -> None:
    (host,) = sshd.make_hosts(1)
    agent = AgentCommand(
        folder=f"{host.workdir}/runs/r/0", run="r", host=0, route_to="127.0.0.1", cwd=host.workdir
    )
    line = SshTransport().open(host, agent, Heard())
    reader = Reader(line)
    hello = decode(next(reader))
    assert hello is not None
    assert isinstance(hello.event, Hello)
    line.write(encode(Close()))
    assert line.close() == ""
    again = Reader(SshTransport().open(host, structs.replace(agent, after=hello.seq), Heard()))
    events = []
    with suppress(EOFError):
        while True:
            events.append(decode(next(again)))
    assert [
        record.event for record in events if record and isinstance(record.event, AgentEnded)
    ] == [AgentEnded(EndReason.CLOSED)]
    assert not [record for record in events if record and record.seq <= hello.seq]
    again.channel.close()


# Other ways to a host


def test_jump_hosts(open_line: Open, sshd: Sshd) -> None:
    two, three = (sshd.node(name) for name in ("node2", "node3"))
    user = sshd.make_hosts(1)[0].user
    jump = f"{user}@{two.address}:{two.port},{three.address}:{three.port}"
    line = open_line(replace(sshd.make_hosts(1)[0], jump=jump))
    Reader(line).hello()
    line.write(b"one\n")
    assert [
        len(sshd.node(name).connections()) > 0 for name in ("node1", "node2", "node3", "node4")
    ] == [
        True,
        True,
        True,
        False,
    ]
    line.close()
    wait(lambda: not two.connections(), "the end of the connection")
    wait(lambda: not three.connections(), "the end of the connection")


def test_jump_host_by_its_name_in_ssh_configuration(
    open_line: Open, sshd: Sshd, tmp_path: Path
) -> None:
    gate = sshd.node("node2")
    key = sshd.home / "gate_key"
    shutil.move(sshd.home / ".ssh" / "id_ed25519", key)
    (tmp_path / "config").write_text(
        f"Host gate\n HostName {gate.address}\n Port {gate.port}\n IdentityFile {key}\n"
    )
    transport = SshTransport(package(tmp_path / "other"), ssh_config=tmp_path / "config")
    host = replace(sshd.make_hosts(1)[0], jump="gate", identity_file=str(key))
    Reader(open_line(host, way=transport)).hello()


def test_each_jump_host_is_verified(refusal: Callable[..., str], sshd: Sshd) -> None:
    gate = sshd.node("node2")
    lines = sshd.known_hosts.read_text().splitlines(keepends=True)
    sshd.known_hosts.write_text("".join(line for line in lines if gate.address not in line))
    text = refusal(jump=f"{gate.address}:{gate.port}")
    assert text.startswith(f"its jump host {gate.address}:{gate.port}: its host key is unknown: ")


def test_jump_host_that_reaches_nothing(refusal: Callable[..., str], sshd: Sshd) -> None:
    gate = sshd.node("node2")
    port = free_port("127.0.0.1")
    text = refusal(jump=f"{gate.address}:{gate.port}", port=port)
    assert text == f"its jump host cannot connect to 127.0.0.1:{port}: Connect failed"


def test_jump_host_that_refuses(refusal: Callable[..., str]) -> None:
    port = free_port("127.0.0.2")
    assert refusal(jump=f"127.0.0.2:{port}").startswith(
        f"its jump host 127.0.0.2:{port}: 127.0.0.2:{port} refused the connection"
    )


PROXY = """
import os, select, socket, sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    ready = select.select([0, sock], [], [])[0]
    if sock in ready:
        data = sock.recv(65536)
        if not data: break
        os.write(1, data)
    if 0 in ready:
        data = os.read(0, 65536)
        if not data: break
        sock.sendall(data)
"""


def test_proxy_command(open_line: Open, sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "proxy.py").write_text(PROXY)
    host = replace(
        sshd.make_hosts(1)[0], proxy_command=f"'{sys.executable}' '{tmp_path}/proxy.py' %h %p"
    )
    line = open_line(host)
    Reader(line).hello()
    alive = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    (child,) = [one for one in alive if "proxy.py" in " ".join(one.cmdline())]
    line.close()
    assert not child.is_running()


@pytest.mark.parametrize("way", ["directly", "by jump hosts", "by a proxy"])
def test_the_command_to_type_reaches_a_host_as_rankboard_does(
    way: str, sshd: Sshd, tmp_path: Path
) -> None:
    ssh = shutil.which("ssh")
    if ssh is None:
        pytest.skip("there is no ssh")
    two, three = (sshd.node(name) for name in ("node2", "node3"))
    folder = tmp_path / "of 100 %h"
    folder.mkdir()
    known_hosts = shutil.copy(sshd.known_hosts, folder / "known_hosts")
    key = shutil.move(sshd.home / ".ssh" / "id_ed25519", tmp_path / "a key")
    (tmp_path / "proxy.py").write_text(PROXY)
    ways = {
        "directly": {},
        "by jump hosts": {"jump": f"{two.address}:{two.port},{three.address}:{three.port}"},
        "by a proxy": {"proxy_command": f"'{sys.executable}' '{tmp_path}/proxy.py' %h %p"},
    }
    host = replace(sshd.make_hosts(1)[0], identity_file=str(key), **ways[way])
    # It reads the files of the user's account, whatever HOME says: those stand for the jump hosts'.
    (tmp_path / "bin").mkdir()
    own_ssh = tmp_path / "bin" / "ssh"
    own_ssh.write_text(
        f'#!/bin/sh\nexec {ssh} -F none -o BatchMode=yes -o GlobalKnownHostsFile="$KNOWN" "$@"\n'
    )
    own_ssh.chmod(0o755)
    known = {"KNOWN": str(sshd.known_hosts if way == "by jump hosts" else "/dev/null")}
    command = TRANSPORT.by_hand(replace(host, known_hosts=str(known_hosts)), ["echo", "a  b"])
    path = f"{own_ssh.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        env=os.environ | known | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("a  b\n", 0), done.stderr


def test_unknown_host_key_behind_a_proxy(
    refusal: Callable[..., str], sshd: Sshd, tmp_path: Path
) -> None:
    (tmp_path / "proxy.py").write_text(PROXY)
    sshd.known_hosts.unlink()
    text = refusal(
        proxy_command=f"'{sys.executable}' '{tmp_path}/proxy.py' %h %p secret", user="ada"
    )
    assert text.endswith("\nrankboard trust node1")
    assert "secret" not in text


def test_proxy_command_that_fails(refusal: Callable[..., str]) -> None:
    text = refusal(proxy_command="echo no way to %h >&2; false", timeout=1.0)
    # A loaded machine may run out of time during the last attempt and say so after this.
    assert "hung up before the login; its proxy_command says: no way to 127.0.0.1" in text


def test_proxy_command_that_fails_and_then_hangs(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    script = (
        f"[ -e '{tmp_path}/tried' ] && exec sleep 60; touch '{tmp_path}/tried'; echo no way >&2"
    )
    text = refusal(proxy_command=f"sh -c {shlex.quote(script)}", timeout=1.0)
    assert text.endswith(
        "hung up before the login; its proxy_command says: no way; then no answer came"
    )


# Host keys


def test_unknown_host_key(refusal: Callable[..., str], open_line: Open, sshd: Sshd) -> None:
    sshd.known_hosts.unlink()
    node = sshd.node("node1")
    text = refusal()
    assert text.startswith(f"its host key is unknown: ED25519 {fingerprint(node, sshd)}. ")
    assert text.splitlines()[1] == "rankboard trust node1"
    sshd.known_hosts.write_text(f"[{node.address}]:{node.port} {node.public_key}\n")
    Reader(open_line()).hello()


def test_a_hosts_own_known_hosts(refusal: Callable[..., str], open_line: Open, sshd: Sshd) -> None:
    own = sshd.home / "own hosts"
    own.touch()
    text = refusal(known_hosts="~/own hosts")  # the usual file has its key
    assert text.startswith("its host key is unknown")
    sshd.known_hosts.rename(own)
    assert refusal().startswith("its host key is unknown")
    Reader(open_line(replace(sshd.make_hosts(1)[0], known_hosts="~/own hosts"))).hello()


def fingerprint(node: Daemon, sshd: Sshd) -> str:
    (sshd.home / "key.pub").write_text(node.public_key)
    words = ["ssh-keygen", "-lf", str(sshd.home / "key.pub")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]


def test_changed_host_key(refusal: Callable[..., str], sshd: Sshd) -> None:
    node, other = sshd.node("node1"), sshd.node("node2")
    sshd.known_hosts.write_text(f"# mine\n[{node.address}]:{node.port} {other.public_key}\n")
    text = refusal()
    assert text.startswith(
        f"its host key has CHANGED to ED25519 {fingerprint(node, sshd)}; line 2 of "
        f"{sshd.known_hosts} has another"
    )
    assert text.endswith("rankboard trust --replace node1")


def test_revoked_host_key(refusal: Callable[..., str], sshd: Sshd) -> None:
    node = sshd.node("node1")
    line = f"[{node.address}]:{node.port} {node.public_key}\n"
    sshd.known_hosts.write_text(f"{line}@revoked {line}")
    assert "is revoked in line 2 of" in refusal()


# Keys


def test_key_file_of_the_host(open_line: Open, sshd: Sshd) -> None:
    shutil.move(sshd.home / ".ssh" / "id_ed25519", sshd.home / "mine")
    heard = Heard()
    Reader(open_line(replace(sshd.make_hosts(1)[0], identity_file="~/mine"), heard)).hello()
    assert heard.texts == []


def test_key_file_that_others_can_read_is_mentioned(open_line: Open, sshd: Sshd) -> None:
    key = sshd.home / ".ssh" / "id_ed25519"
    key.chmod(0o644)
    heard = Heard()
    Reader(open_line(replace(sshd.make_hosts(1)[0], identity_file=str(key)), heard)).hello()
    assert heard.texts == [
        f"{key} can be read by others, and ssh itself would refuse it: chmod 600 {key}"
    ]


def test_key_file_that_is_not_there(refusal: Callable[..., str], sshd: Sshd) -> None:
    text = refusal(identity_file="~/.ssh/nokey")
    assert (
        text == f"there is no key file {sshd.home}/.ssh/nokey; set identity_file in hosts.toml to "
        "your private key"
    )


def test_key_file_that_is_none(refusal: Callable[..., str], sshd: Sshd) -> None:
    (sshd.home / "notes").write_text("nothing\n")
    assert refusal(identity_file="~/notes").startswith(
        f"{sshd.home}/notes is not a private key; set identity_file"
    )
    keygen(sshd.home / "other")
    assert refusal(identity_file="~/other.pub").startswith(
        f"{sshd.home}/other.pub is not a private key but a public one; set"
    )


def test_key_that_is_not_accepted(refusal: Callable[..., str], sshd: Sshd) -> None:
    keygen(sshd.home / "other")
    host = sshd.make_hosts(1)[0]
    first, second = refusal(identity_file="~/other").splitlines()
    assert (
        first == f"login as {host.user} failed; keys tried: {sshd.home}/other; the server accepts "
        "publickey"
    )
    assert second.startswith(
        "set user and identity_file in hosts.toml, or have your key accepted there: ssh-copy-id -p "
    )


def test_no_key_at_all(refusal: Callable[..., str], sshd: Sshd) -> None:
    (sshd.home / ".ssh" / "id_ed25519").unlink()
    assert "failed; keys tried: none; the server accepts publickey" in refusal()


@pytest.fixture
def locked(sshd: Sshd) -> Path:
    """A host's key file, with a passphrase on it."""
    key = sshd.home / "locked"
    shutil.move(sshd.home / ".ssh" / "id_ed25519", key)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-N", "open sesame", "-f", str(key)],
        check=True,
        capture_output=True,
    )
    return key


def test_key_with_a_passphrase(refusal: Callable[..., str], locked: Path, tmp_path: Path) -> None:
    text = refusal(identity_file=str(locked))
    assert (
        f"the key {locked} has a passphrase; load it into ssh-agent first, with: ssh-add "
        f"{locked}; or set user" in text
    )


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # paramiko leaves its socket open
@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (True, "\nssh-agent does not work: "),
        (False, "no answer within 1 s while asking ssh-agent for its keys"),
    ],
)
def test_ssh_agent_that_is_of_no_use(
    answers: bool,
    told: str,
    refusal: Callable[..., str],
    sshd: Sshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (sshd.home / ".ssh" / "id_ed25519").unlink()
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        agent.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        if answers:
            threading.Thread(target=lambda: agent.accept()[0].close(), daemon=True).start()
        assert told in refusal(timeout=1.0)
    # its socket lives as long
    wait(lambda: all(one.name != "question" for one in threading.enumerate()), "the question's end")
    gc.collect()


def test_key_of_ssh_agent(
    open_line: Open, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = sshd.home / ".ssh" / "id_ed25519"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL
    )
    try:
        wait((tmp_path / "agent").exists, "the agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        subprocess.run(["ssh-add", "-q", str(key)], check=True, capture_output=True)
        key.unlink()
        Reader(open_line()).hello()
    finally:
        process.kill()
        process.wait()


# Hosts that do not answer, or not as they should


def test_refused_connection(refusal: Callable[..., str]) -> None:
    port = free_port("127.0.0.1")
    text = refusal(port=port)
    assert (
        text
        == f"127.0.0.1:{port} refused the connection; start sshd there, or set its address and "
        "port in hosts.toml"
    )


def test_host_that_never_speaks(refusal: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        text = refusal(port=port, timeout=0.5)
        assert text.startswith(
            f"no answer within 0.5 s while connecting to 127.0.0.1:{port}; is it up?"
        )


@pytest.mark.parametrize("name", ["no such.invalid", "a..b", "x" * 64])
def test_name_that_does_not_resolve(name: str, refusal: Callable[..., str]) -> None:
    assert f"the name {name!r} does not resolve (" in refusal(address=name)


def test_name_whose_first_address_is_a_black_hole(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an IPv6 address where there is no way for IPv6."""
    host = sshd.make_hosts(1)[0]
    with socket.create_server(("127.0.0.1", 0)) as full:
        full.listen(0)
        addresses = [
            (socket.AF_INET, full.getsockname()),
            (socket.AF_INET, (host.address, host.port)),
        ]
        with socket.create_connection(full.getsockname()):  # from now on nobody else gets through
            monkeypatch.setattr(sockets, "_addresses", lambda *_: addresses)
            with sockets.connect_tcp(host, Deadline(1.0)) as connection:
                assert connection.getpeername() == (host.address, host.port)


def test_port_of_another_service(refusal: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    sock = server.accept()[0]
                except OSError:
                    return
                sock.close()

        threading.Thread(target=serve, daemon=True).start()
        text = refusal(port=server.getsockname()[1], timeout=0.7)
        server.shutdown(socket.SHUT_RDWR)
    assert "hung up before the login; " in text
    assert "is that the port of an ssh server?" in text  # on a busy machine, the last try took long


def test_busy_sshd_that_drops_connections_is_tried_again(open_line: Open, sshd: Sshd) -> None:
    node = sshd.node("node1")
    node.stop()
    node.start(MaxStartups="1")
    try:
        wait(lambda: not node.connections(), "the end of the connection")
        with (
            socket.create_connection((node.address, node.port)) as other,
            ThreadPoolExecutor(1) as pool,
        ):
            assert (
                other.recv(4) == b"SSH-"
            )  # one that does not log in: there is no place for another
            opening = pool.submit(open_line)
            wait(lambda: "drop connection" in node.log.read_text(), "a connection too many")
            other.close()
            Reader(opening.result()).hello()
    finally:
        node.stop()
        node.start()


def test_shell_that_hangs(refusal: Callable[..., str], sshd: Sshd) -> None:
    (sshd.far_home / ".bashrc").write_text("sleep 30 & echo $! > ~/pid; wait\n")
    assert refusal(timeout=1.0).startswith("no answer within 1 s while starting its agent; ")
    psutil.Process(int((sshd.far_home / "pid").read_text())).kill()


def test_python_that_is_not_there(refusal: Callable[..., str]) -> None:
    text = refusal(python="python9")
    assert text.startswith("no python9 there (")
    assert "python9: command not found" in text
    assert text.endswith('); set python = "/path/to/python3" for it in hosts.toml')
    assert "/no/such/python: No such file or directory" in refusal(python="/no/such/python")


@pytest.mark.parametrize("python", ["/bin/ls", "/bin/bash", "/bin/cat", "/bin/echo"])
def test_python_that_is_no_python(
    python: str, refusal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    monkeypatch.setattr("tests.hosts.test_transport_ssh.Heard", lambda: heard)
    text = refusal(python=python)
    assert text.startswith(f"{python} is not a working Python 3 (exit status ")
    assert text.endswith('; set python = "/path/to/python3" for it in hosts.toml')
    assert all(
        len(said) <= 320 and "aW1wb3J0" not in said for said in (text, *heard.texts)
    )  # nor the program itself


def test_python_with_arguments(refusal: Callable[..., str]) -> None:
    assert refusal(python="conda run -n torch python").startswith(
        "no conda run -n torch python there ("
    )


def test_python_that_never_stops(refusal: Callable[..., str], tmp_path: Path) -> None:
    endless = tmp_path / "python"
    # not of the shortest lines: to read a million of them takes seconds of CPU
    endless.write_text("#!/bin/sh\nexec yes no agent, but a line of some other program\n")
    endless.chmod(0o755)
    assert refusal(python=str(endless)).startswith(
        "its login shell, or its python, printed more than 1 MiB before"
    )


def test_python_that_is_too_old(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.version_info = (3, 8, 10, 'final', 0)\n"
    )
    old = tmp_path / "python3.8"
    old.write_text(f"#!/bin/sh\nPYTHONPATH='{tmp_path}' exec '{sys.executable}' \"$@\"\n")
    old.chmod(0o755)
    assert "is 3.8.10, which is older than 3.10; set python = " in refusal(python=str(old))


def test_workdir_that_cannot_be_used(refusal: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(workdir=f"{tmp_path}/file/work").startswith(
        f"cannot use its workdir {tmp_path}/file/work: "
    )


def test_account_without_a_shell(refusal: Callable[..., str], sshd: Sshd) -> None:
    (sshd.far_home / ".bashrc").write_text(
        "echo This account is currently not available.\nexit 1\n"
    )
    text = refusal()
    assert re.match(
        r"its login shell, or \S+ there, ended \(exit status 1\) before anything was started: "
        r"This account",
        text,
    )


def test_agent_that_fails_at_its_start(refusal: Callable[..., str], tmp_path: Path) -> None:
    broken = SshTransport(package(tmp_path / "other", "raise ValueError('no such folder')"))
    assert (
        refusal(broken)
        == "its agent ended at its start (exit status 1): ValueError: no such folder"
    )


def test_paramiko_prints_nothing(
    refusal: Callable[..., str], sshd: Sshd, capfd: pytest.CaptureFixture[str]
) -> None:
    sshd.known_hosts.unlink()
    refusal()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refusal(port=silent.getsockname()[1], timeout=0.3)
    assert capfd.readouterr() == ("", "")


class Slow:
    """A server that does not answer a login in time, as paramiko tells it."""

    auth_timeout = 0.0

    def auth_none(self, *_: object) -> None:
        raise paramiko.AuthenticationException("Authentication timeout.")

    auth_publickey = auth_none


def test_a_login_that_times_out_is_no_refusal() -> None:
    slow: Any = Slow()
    with pytest.raises(TimeoutError):
        login._accepts(slow, "ada", paramiko.PKey())
    entry = login.Login(UserKeys(), print, Deadline(5.0))
    with pytest.raises(TimeoutError):
        entry._explain_refusal(slow, Host("node1", "127.0.0.1"), "ada", ["a key"], [])
    assert 0 < slow.auth_timeout <= 5
