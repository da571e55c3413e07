"""The real command over real SSH, to servers that play a host by a script: with bounds on its time
and memory."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from psutil import pid_exists

from remote.cluster.hosts import Host
from remote.events import SessionClosed
from remote.transport import HostCommand, Unreachable
from remote.transport.bootstrap.first import SPOKEN
from remote.transport.ssh.transport import SshTransport
from tests.hostile.folders import HOSTS, RUN, ended, lines, recorded
from tests.hostile.launcher import rankboard
from tests.hostile.values import ESCAPES
from tests.kit.scripted_hosts import Daemon, End, Keys, Play, Player, acted, answers, endless
from tests.kit.stage import HELLO, finishes, trains
from tests.kit.wait import wait
from training.agent import MARKER
from training.wire.commands import Close, Command, Lease, StartAttempt, Stop
from training.wire.enums import EndReason
from training.wire.events import SESSION
from training.wire.host_events import AgentEnded, Exited, HostSample, OutputText

LEASES = 3
HEADLESS = ("--run", "--no-fetch", "--steps", "100000")


@contextmanager
def served(
    keys: Keys, folder: Path, *plays: Play, window: int = 0, greeting: bytes | None = None
) -> Iterator[list[Daemon]]:
    """A server for each play, and a hosts.toml of them in the folder."""
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(
                Daemon(Player(number, play), keys, window=window, greeting=greeting)
            )
            for number, play in enumerate(plays)
        ]
        keys.hosts_toml(folder / "hosts.toml", *daemons)
        yield daemons


def samples(end: End, command: Command | None) -> None:
    """An honest agent that gives a sign of life at each lease."""
    trains(end, command)  # type: ignore[arg-type]
    if isinstance(command, Lease):
        end.say(HostSample((), 1, 1))


def interrupt(other: Daemon, *numbers: signal.Signals) -> Callable[[int], None]:
    """Signals the launcher, once `other` has had signs of its life while it trains; once more, when
    it has heard of the stop. A launcher that ends before gets none."""

    def then(pid: int) -> None:
        wait(lambda: other.player.leases() >= LEASES or not pid_exists(pid), "leases")
        for turn, number in enumerate(numbers):
            if turn:
                wait(lambda: other.player.of(Stop) or not pid_exists(pid), "the stop")
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    return then


def test_a_host_that_never_reads_holds_up_nobody(keys: Keys, tmp_path: Path) -> None:
    """It goes on saying things, but takes no command. The other host gets every lease, and Ctrl-C
    ends the command."""

    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            while True:  # until the launcher hangs up
                end.say(HELLO)
                end.say(HostSample((), 1, 1))
                time.sleep(0.01)

    with served(keys, tmp_path, acted(samples), acted(part), window=32_768) as (good, _):
        done = rankboard(
            tmp_path, *HEADLESS, home=keys.home, then=interrupt(good, signal.SIGINT, signal.SIGINT)
        ).holds()  # type: ignore[arg-type]
    assert good.player.of(Stop)  # a second Ctrl-C does not wait for its end, nor for a Close
    assert done.code in (3, 130)


def test_a_flood_takes_neither_memory_nor_the_other_host(keys: Keys, tmp_path: Path) -> None:
    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            while True:  # until the launcher hangs up
                end.send(b"x" * 32_768)

    with served(keys, tmp_path, acted(samples), acted(part)) as (good, _):
        done = rankboard(
            tmp_path, *HEADLESS, home=keys.home, then=interrupt(good, signal.SIGINT)
        ).holds()  # type: ignore[arg-type]
    assert done.code in (3, 130)


def test_an_answer_without_end_is_bounded(keys: Keys, tmp_path: Path) -> None:
    with served(
        keys,
        tmp_path,
        acted(trains, answers()),
        acted(trains, endless(b'{"kind":"' + b"x" * 60_000 + b'"}\n')),
    ):  # type: ignore[arg-type]
        done = rankboard(tmp_path, "ps", home=keys.home).holds()
    assert done.code in (2, 3)
    assert "node2" in done.err


def test_a_stop_reaches_the_host_in_whose_name_another_spoke(keys: Keys, tmp_path: Path) -> None:
    """Another host has forged its end and the session's: it is stopped all the same."""

    def forges(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            for number, said in enumerate((Exited(0, 0), AgentEnded(EndReason.CLOSED)), 500):
                end.say(said, host=0, seq=number)
            end.say(SessionClosed(), host=SESSION, seq=500)

    with served(keys, tmp_path, acted(samples), acted(forges)) as (good, _):
        left = rankboard(
            tmp_path,
            *HEADLESS,
            "--on-disconnect",
            "keep",
            home=keys.home,
            then=interrupt(good, signal.SIGTERM),  # type: ignore[arg-type]
        ).holds()
        assert not good.player.of(Close), left.said
        before = good.connections
        rankboard(tmp_path, "stop", "last", home=keys.home).holds()
        assert good.connections > before
        assert good.player.of(Close)


def test_a_foreign_folder_executes_nothing(keys: Keys, tmp_path: Path) -> None:
    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, Stop):  # else the launcher waits for its end
            end.say(AgentEnded(EndReason.ALL_ENDED))

    with served(keys, tmp_path, acted(part, answers())) as (daemon,):
        daemon.player.journal += lines(0, ended(0)[:-1])
        recorded(
            tmp_path / "runs",
            HOSTS[:1],
            daemon.player.journal,
            host_proxy_command=f"touch {tmp_path}/PWNED; false #",
            host_env_from=["MY_SECRET_TOKEN"],
        )
        aside = (tmp_path / "hosts.toml").rename(tmp_path / "aside")
        for reached in (0, 1):
            if reached:
                aside.rename(tmp_path / "hosts.toml")
            rankboard(
                tmp_path, "stop", RUN, home=keys.home, MY_SECRET_TOKEN="topsecret-value-123"
            ).holds()
            assert daemon.connections == reached, "only where the operator knows the host"
        assert daemon.player.of(Stop)
    assert not (tmp_path / "PWNED").exists()


def test_nothing_that_a_host_says_reaches_a_terminal_raw(keys: Keys, tmp_path: Path) -> None:
    """The run finishes all the same: hosts of other cases fail by what else they do."""

    def part(end: End, command: Command | None) -> None:
        if command is None:
            end.say(replace(HELLO, hostname=ESCAPES, python=ESCAPES, user=ESCAPES))
            return
        finishes(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            end.say(
                OutputText(0, "stdout", ESCAPES),
                OutputText(0, "stderr", ESCAPES),
                OutputText(-1, "stderr", ESCAPES),
            )
            end.send(ESCAPES.encode(errors="replace") + b"\n")

    with served(keys, tmp_path, acted(part)) as (daemon,):
        done = rankboard(tmp_path, *HEADLESS, home=keys.home).holds()
    assert done.code == 0, done.said
    assert daemon.connections == 1


# Before the agent speaks --------------------------------------------------------------------------


GREETINGS: dict[str, bytes] = {
    "noise without end": b"welcome\n" * 400_000,
    "noise without a newline": b"x" * 3_000_000,
    "nothing": b"",
    "half a marker": MARKER[:5],
    "an error": SPOKEN.encode() + f"error code {json.dumps([ESCAPES, ESCAPES])}\n".encode(),
    "a word that there is not": SPOKEN.encode() + b"sudo rm\n",
    "the code, again and again": (SPOKEN.encode() + b"need\n") * 50,
    "escapes": ESCAPES.encode(errors="replace") + b"\n" + SPOKEN.encode() + b"error no\n",
}


@pytest.mark.parametrize("case", GREETINGS)
def test_what_comes_before_the_marker(
    case: str, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is given up in bounded time, in words fit for a terminal."""
    monkeypatch.setenv("HOME", str(keys.home))

    class Hearing:
        texts = 0

        def phase(self, name: str) -> None:
            pass

        def said(self, text: str) -> None:
            self.texts += len(text)

    with served(keys, tmp_path, acted(trains), greeting=GREETINGS[case]) as (daemon,):  # type: ignore[arg-type]
        host = Host("node1", daemon.address, "u", daemon.port, str(keys.identity), timeout=1.0)
        heard = Hearing()
        with pytest.raises(Unreachable):
            SshTransport().open(host, HostCommand(("runs", "~/.rankboard")), heard).read()
        assert heard.texts < 4 * 2**20
