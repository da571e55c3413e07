"""A host by script: it plays an agent or an errand, and may say anything at any time, or
not listen.

A *player* is one host. For each connection it gets an `End`, the host's end of it, and calls its
`play` with that in a thread.

    Player(0, acted(trains))                       # an honest agent: a part of test_session
    Player(1, acted(trains, HostSample: floods))   # honest, up to something
    Player(1, answers(b'{"entries": [' * 9))       # an errand's answer, byte by byte

`Hosts` is a transport to players in this process; `Daemon` serves one over SSH, for the real
command.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import paramiko

from remote.cluster.hosts import Host
from remote.transport import Program, ReachProgress, Unreachable
from remote.transport.bootstrap.first import SPOKEN
from remote.transport.failure import Failure, FailureCause
from training.agent import MARKER, WHOLE
from training.wire import commands
from training.wire.commands import Close, Command, Lease, StartAttempt
from training.wire.events import Event, Record, decode, encode
from training.wire.host_events import Exited, Launched
from training.wire.jsonl import dumps

C = TypeVar("C")
Part = Callable[["End", Command | None], None]
"""What an agent does: called with None when it begins, then with each command."""


class Channel(Protocol):
    """What bytes go through: a socket, a channel of paramiko, or a queue."""

    def sendall(self, data: bytes, /) -> object: ...

    def recv(self, size: int, /) -> bytes: ...

    def close(self) -> object: ...


class End:
    """The host's end of one connection.

    `words` are the program's arguments, `heard` the commands with the time of each.
    """

    def __init__(self, player: Player, words: tuple[str, ...], channel: Channel) -> None:
        self.player = player
        self.words = words
        self.host = player.number
        self.heard: list[tuple[float, Command]] = []
        self._channel = channel
        self._is_caught_up = False
        player.ends.append(self)

    @property
    def journal(self) -> list[bytes]:
        """The records that the host has written, over all connections."""
        return self.player.journal

    @property
    def commands(self) -> list[Command]:
        """What the launcher has written over this connection."""
        return [command for _, command in self.heard]

    @property
    def after(self) -> int:
        """The number of the last record that the launcher knows."""
        return int(self.words[self.words.index("--after") + 1]) if "--after" in self.words else 0

    @property
    def _launches(self) -> list[Event]:
        """Starts and exits of its ranks, as the host told them."""
        records = [decode(line) for line in self.journal]
        events = [record.event for record in records if record]
        return [event for event in events if isinstance(event, Launched | Exited)]

    @property
    def runs(self) -> bool:
        """Whether its rank was launched and has not exited."""
        return bool(self._launches) and isinstance(self._launches[-1], Launched)

    @property
    def rank(self) -> int:
        """The first rank of those that were started last."""
        starts = self.player.of(StartAttempt)
        if starts:
            return starts[-1].placements[0].rank
        return [event.ranks[0] for event in self._launches if isinstance(event, Launched)][-1]

    def say(self, *events: Event, **head: Any) -> None:
        """Write records to the journal and send them to all who follow it.

        `head` forges what stands around the event: host, attempt, seq, time.
        """
        for event in events:
            with self.player.lock:
                record = Record(**(self._head() | head), event=event)
                self._tell(encode(record).encode("utf-8", "backslashreplace"))

    def forge(self, event: str, **fields: Any) -> None:
        """Send a record of which every field is the caller's, as JSON, true to its type or not."""
        with self.player.lock:
            text = dumps(self._head() | {"event": event} | fields)
            self._tell(text.encode("utf-8", "backslashreplace") + b"\n")

    def _head(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "attempt": self.player.attempt,
            "seq": len(self.journal) + 1,
            "time": time.time(),
        }

    def _tell(self, line: bytes) -> None:
        self.journal.append(line)
        for other in self.player.ends:
            if other is not self and other._is_caught_up:
                with contextlib.suppress(OSError):  # that launcher has hung up
                    other.send(line)
        self.send(line)

    def catch_up(self) -> None:
        """Send what the launcher does not know of the journal; what is said from now on follows."""
        with self.player.lock:
            for line in self.journal[self.after :]:
                self.send(line)
            self._is_caught_up = True

    def send(self, data: bytes) -> None:
        """Send some bytes. Raises: OSError, once the launcher has hung up."""
        self._channel.sendall(data)

    def drop(self) -> None:
        """Break the connection."""
        self._channel.close()

    def lines(self) -> Iterator[bytes]:
        """What the launcher writes, until it hangs up."""
        rest = b""
        while data := self._channel.recv(65536):
            *lines, rest = (rest + data).split(b"\n")
            yield from lines

    def listen(self) -> Iterator[Command]:
        """The launcher's commands, each noted with the time at which it came."""
        for line in self.lines():
            command = self.receive(line)
            if command:
                yield command

    def receive(self, line: bytes) -> Command | None:
        """Note the command of a line."""
        command = commands.decode(line)
        if command:
            self.heard.append((time.monotonic(), command))
        if isinstance(command, StartAttempt):
            self.player.attempt = command.attempt
        return command


Play = Callable[[End], None]


@dataclass
class Player:
    """One host, with what its agent keeps over all connections. `ends` are these, the newest
    last."""

    number: int
    play: Play
    journal: list[bytes] = field(default_factory=list)
    attempt: int = 0
    ends: list[End] = field(default_factory=list)
    done: bool = False
    """Set by what plays it once it has done what it is up to."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def serve(self, words: tuple[str, ...], channel: Channel) -> None:
        """Play one connection up to its end."""
        end = End(self, words, channel)
        with contextlib.suppress(OSError, EOFError):  # the launcher hung up
            self.play(end)

    @property
    def heard(self) -> list[tuple[float, Command]]:
        """All commands with the time at which each came."""
        return [one for end in self.ends for one in end.heard]

    def of(self, kind: type[C]) -> list[C]:
        """The commands of a kind."""
        return [command for _, command in self.heard if isinstance(command, kind)]

    @property
    def verbs(self) -> list[str]:
        """What was asked of it, in order."""
        return [end.words[0] for end in self.ends]

    def leases(self) -> int:
        """How many signs of life of the launcher have come."""
        return len(self.of(Lease))


def acted(part: Part, other: Play | None = None) -> Play:
    """Plays an agent, or the errand `check`, by this part; another errand by `other` or not at
    all."""

    def play(end: End) -> None:
        if end.words[0] not in ("follow", "check"):
            if other:
                other(end)
            return
        end.catch_up()
        if not end.journal:
            part(end, None)
        for command in end.listen():
            part(end, command)
            if end.words[0] == "check" and isinstance(command, Close):
                return

    return play


def answers(*said: bytes | dict[str, Any], whole: bool = True) -> Play:
    """Plays an errand that answers so."""

    def play(end: End) -> None:
        for one in said:
            end.send(
                one if isinstance(one, bytes) else dumps(one).encode(errors="surrogatepass") + b"\n"
            )
        if whole:
            end.send(dumps(WHOLE).encode() + b"\n")

    return play


def endless(block: bytes, first: bytes = b"") -> Play:
    """Plays an errand that never ends its answer; it gives up after 2 GB, so that no test can fill
    the memory."""

    def play(end: End) -> None:
        end.send(first)
        for _ in range(2**31 // len(block)):
            end.send(block)

    return play


# In this process ----------------------------------------------------------------------------------


class SocketLine:
    """The launcher's end of a connection to a player."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours

    def read(self) -> bytes:
        """Some bytes; b"" at the end."""
        try:
            return self._socket.recv(65536)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        """Blocks as long as the host does not read, as a full window of SSH does."""
        self._socket.sendall(data)

    def close(self) -> str:
        """Hang up, whoever still reads or writes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        return ""


class Hosts:
    """A transport to players, by the names of their hosts: node1, node2, …; `opened` are the hosts
    as it was told of them."""

    made: ClassVar[list[Hosts]] = []
    """Those of this test, which are closed at its end."""

    def __init__(self, *plays: Play) -> None:
        self.players = [Player(number, play) for number, play in enumerate(plays)]
        self.opened: list[tuple[Host, tuple[str, ...]]] = []
        self._lines: list[tuple[socket.socket, threading.Thread]] = []
        self._open, self._closed = threading.Lock(), False
        self.made.append(self)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """What the operator's hosts file would say of them."""
        return tuple(
            Host(f"node{one.number + 1}", f"127.0.0.{one.number + 1}") for one in self.players
        )

    def open(self, host: Host, program: Program, progress: ReachProgress) -> SocketLine:
        """Connect to the player of this name."""
        self.opened.append((host, program.argv()))
        progress.phase("connecting")
        with self._open:
            return self._connect(host, program)

    def _connect(self, host: Host, program: Program) -> SocketLine:
        known = {one.name: player for one, player in zip(self.hosts, self.players, strict=True)}
        if host.name not in known or self._closed:
            raise Unreachable(host.name, Failure(FailureCause.ADDRESS, "no such host"))
        ours, theirs = socket.socketpair()

        def serve() -> None:
            with theirs:
                known[host.name].serve(program.argv(), theirs)

        thread = threading.Thread(target=serve, name=f"player {host.name}", daemon=True)
        thread.start()
        self._lines.append((ours, thread))
        return SocketLine(ours)

    def close(self) -> None:
        """End all connections and what plays at their other ends; no new one comes to be."""
        with self._open:
            self._closed = True
        for ours, _ in self._lines:
            SocketLine(ours).close()
        for ours, thread in self._lines:
            thread.join(10)
            assert not thread.is_alive(), "a player has not ended"
            ours.close()


# Over SSH -----------------------------------------------------------------------------------------


class _Server(paramiko.ServerInterface):
    """Lets in who has the one key, and has every command played."""

    def __init__(self, player: Player, key: paramiko.PKey, greeting: bytes) -> None:
        self._player, self._key, self._greeting = player, key, greeting

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL if key == self._key else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(
            target=self._serve, args=(channel, command.decode()), name="played", daemon=True
        ).start()
        return True

    def _serve(self, channel: paramiko.Channel, command: str) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.sendall(self._greeting)
            if self._greeting.endswith(MARKER):
                self._player.serve(words_of(command), channel)
            channel.send_exit_status(0)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.close()


def words_of(command: str) -> tuple[str, ...]:
    """The program's arguments in the launcher's one command (see
    `remote.transport.bootstrap`)."""
    found = re.search(r'a2b_base64\("([^"]+)"\)', command)
    assert found, command
    call = ast.parse(
        base64.b64decode(found[1]).decode().strip().rpartition("\n")[2], mode="eval"
    ).body
    assert isinstance(call, ast.Call)
    arguments = ast.literal_eval(
        call.args[0].value if isinstance(call.args[0], ast.Starred) else call.args[-1]
    )
    return tuple(arguments[-1])


class Daemon:
    """An SSH server on a loopback address that has one player play every command. Use as a context
    manager."""

    def __init__(
        self,
        player: Player,
        keys: Keys,
        address: str = "127.0.0.1",
        window: int = 0,
        greeting: bytes | None = None,
    ) -> None:
        """`window`: the bytes that it takes before it has read any; 0 for paramiko's own.
        `greeting`: what it says in place of the start of its agent."""
        self.player, self.address = player, address
        self._greeting = SPOKEN.encode() + b"have\n" + MARKER if greeting is None else greeting
        self._keys, self._window = keys, window
        self._listener = socket.create_server((address, 0))
        self.port = int(self._listener.getsockname()[1])
        self._transports: list[paramiko.Transport] = []
        self._thread = threading.Thread(target=self._accept, name="hostile sshd", daemon=True)

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self._transports)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            more = {"default_window_size": self._window} if self._window else {}
            transport = paramiko.Transport(connection, **more)
            transport.add_server_key(self._keys.host)
            self._transports.append(transport)
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                transport.start_server(
                    threading.Event(), _Server(self.player, self._keys.user, self._greeting)
                )

    def __enter__(self) -> Daemon:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for transport in self._transports:
            transport.close()
        for transport in self._transports:
            transport.join(5)


class Keys:
    """The key of every such server, and that of the one user whom they let in; in a HOME of its
    own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.host, self.user = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        self.identity = home / ".ssh" / "id_ecdsa"
        self.user.write_private_key_file(str(self.identity))
        (home / ".ssh" / "id_ecdsa.pub").write_text(
            f"{self.user.get_name()} {self.user.get_base64()}\n"
        )

    def hosts_toml(self, path: Path, *daemons: Daemon, **more: str) -> Path:
        """A hosts file of these servers, as node1, node2, …, and their keys among the known hosts.
        `more`: for each host."""
        known = [
            f"[{one.address}]:{one.port} {self.host.get_name()} {self.host.get_base64()}\n"
            for one in daemons
        ]
        (self.home / ".ssh" / "known_hosts").write_text("".join(known))
        tables = []
        for number, one in enumerate(daemons, 1):
            said = {
                "name": f"node{number}",
                "address": one.address,
                "port": one.port,
                "user": "u",
                "timeout": 10,
            } | more
            tables.append(
                "[[host]]\n" + "".join(f"{key} = {dumps(value)}\n" for key, value in said.items())
            )
        path.write_text("\n".join(tables))
        return path
