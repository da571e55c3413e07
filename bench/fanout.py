"""Reaching many hosts and running one command on each: rankboard against pdsh and clush, over
addresses of one sshd.

The programs take turns in each round, in changing order. `true` is the bare command. `Hello` is
what the doctor runs: a program that finds the code on the host and runs the errand `check`, until
that has answered with the facts and has ended; pdsh runs the same command. Rankboard is timed
twice: as a whole process, and from the first connection on. "Again" is `true` on connections that
are open. Needs Debian's pdsh and clustershell. Prints each round, then the medians, the ratios to
pdsh last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parts.loopback import Loopback, loopback

from remote.cluster.hosts import Host
from remote.transport import HostCommand
from remote.transport.bootstrap.archive import build_archive
from remote.transport.bootstrap.command import build_start_command
from training.wire.commands import Close, encode
from training.wire.enums import Reach

ROUNDS = 7
COUNT = 64
BOUNDS = {"true": 0.35, "Hello": 0.45}
AGAIN = 0.15


class Quiet:
    """Hears nothing of the way to a host."""

    def phase(self, name: Reach) -> None:
        pass

    def said(self, text: str) -> None:
        pass


# Ours, in a process of its own --------------------------------------------------------------------


def on_all(hosts: Sequence[Host], do: Callable[[Host], object]) -> float:
    """Seconds that it takes on all hosts at once."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(do, hosts))
    return time.perf_counter() - began


def run_true(hosts: Sequence[Host]) -> dict[str, float]:
    """Connect and run `true`; then run it again on the open connections."""
    from remote.transport.failure import Deadline
    from remote.transport.ssh.connect import Connector, SshConnection
    from remote.transport.ssh.keys import UserKeys

    keys, made = UserKeys(), dict[str, SshConnection]()

    def true(host: Host) -> None:
        transport = made[host.name].transport
        assert transport
        channel = transport.open_session()
        channel.exec_command("true")
        if channel.recv_exit_status():
            raise SystemExit(f"{host.name}: true has failed")

    def reach(host: Host) -> None:
        made[host.name] = Connector(keys, print, Deadline(host.timeout), host.name).connect(host)
        true(host)

    seconds, again = on_all(hosts, reach), on_all(hosts, true)
    for connection in made.values():
        connection.close()
    return {"seconds": seconds, "again": again}


def run_hello(hosts: Sequence[Host]) -> dict[str, float]:
    """Connect, start the errand `check`, read the facts, and end it."""
    from remote.transport.ssh.transport import SshTransport

    transport = SshTransport()

    def hello(host: Host) -> None:
        line = transport.open(host, check(host.workdir), Quiet())
        said = line.read()
        while b'"hello"' not in said and (more := line.read()):
            said += more
        if b'"hello"' not in said:
            raise SystemExit(f"{host.name}: no Hello but {said!r}")
        with suppress(OSError):
            line.write(encode(Close()))
        while line.read():
            pass
        line.close()

    return {"seconds": on_all(hosts, hello)}


def check(workdir: str) -> HostCommand:
    """The errand on one host: its folder differs, the rest is the same on all."""
    return HostCommand(("check", f"{workdir}/runs/fanout", "127.0.0.1", ""))


CHILDREN = {"true": run_true, "Hello": run_hello}


def ours(server: Loopback, what: str) -> dict[str, float]:
    """What a child says of itself, and the seconds of its whole life."""
    command = [
        sys.executable,
        __file__,
        "--child",
        what,
        "--folder",
        str(server.folder),
        "--port",
        str(server.port),
    ]
    began = time.perf_counter()
    said = subprocess.run(
        [*command, "--hosts", str(server.count)], stdout=subprocess.PIPE, check=True
    ).stdout
    taken = time.perf_counter() - began
    return {"process": taken, **json.loads(said)}


# The others ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pipes:
    """A fifo per host with `Close` in it, for errands whose launcher cannot write to them: it never
    comes to its end."""

    server: Loopback

    def fill(self) -> list[int]:
        """Make them; the descriptors hold what is in them."""
        held = []
        for index in range(self.server.count):
            path = self.server.home(index) / "commands"
            if not path.exists():
                os.mkfifo(path, 0o600)
            held.append(os.open(path, os.O_RDWR))
            os.write(held[-1], encode(Close()))
        return held


def hello_command(server: Loopback) -> str:
    """The command that ours runs on each host, as one that is the same on all: `~` is the host's
    own folder."""
    host = server.hosts()[0]
    home = f"{server.folder}/hosts/${{SSH_CONNECTION#* * }}"
    return (
        f'HOME="{home}"; HOME="${{HOME%% *}}"; export HOME; exec <>"$HOME/commands"; exec '
        + build_start_command(host.python, "~", build_archive(), check("~").argv())
    )


def pdsh(server: Loopback, command: str) -> float:
    """Seconds that pdsh takes."""
    where = f"127.0.0.[1-{server.count}]" if server.count > 1 else "127.0.0.1"
    env = os.environ | {"PDSH_SSH_ARGS_APPEND": f"-F {server.ssh_config}"}
    return timed(["pdsh", "-R", "ssh", "-f", str(server.count), "-S", "-w", where, command], env)


def clush(server: Loopback, command: str) -> float:
    """Seconds that clush takes."""
    where = f"127.0.0.[1-{server.count}]" if server.count > 1 else "127.0.0.1"
    options = ["-n", "-S", "-f", str(server.count), "-o", f"-F {server.ssh_config}"]
    return timed(["clush", *options, "-w", where, command], dict(os.environ))


def timed(command: list[str], env: dict[str, str]) -> float:
    """Seconds from start to end."""
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise SystemExit(f"needs {command[0]}: apt install pdsh clustershell") from None
    taken = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with {done.returncode}: {done.stderr[-500:]}")
    return taken


# The rounds ---------------------------------------------------------------------------------------


def rounds(server: Loopback, number: int) -> dict[str, list[float]]:
    """Seconds of each, round by round."""
    hello, pipes, found = hello_command(server), Pipes(server), dict[str, list[float]]()

    def note(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    def our(what: str) -> None:
        for key, seconds in ours(server, what).items():
            note(f"{what}: {key}", seconds)

    def their_hello() -> None:
        held = pipes.fill()
        note("Hello: pdsh", pdsh(server, hello))
        for descriptor in held:
            os.close(descriptor)

    turns: list[Callable[[], None]] = [
        lambda: our("true"),
        lambda: note("true: pdsh", pdsh(server, "true")),
        lambda: note("true: clush", clush(server, "true")),
        lambda: our("Hello"),
        their_hello,
    ]
    ours(server, "Hello")  # the code is there from now on, and all is in the page cache
    for turn in range(number):
        for do in turns[turn % len(turns) :] + turns[: turn % len(turns)]:
            do()
        print(
            f"round {turn + 1}: "
            + ", ".join(f"{name} {taken[-1]:.3f}" for name, taken in found.items()),
            flush=True,
        )
    return found


def report(found: dict[str, list[float]], count: int) -> None:
    """Medians, then ratios of the rounds."""
    for name, taken in found.items():
        print(
            f"{count} hosts, {name}: median {statistics.median(taken):.3f} s, {min(taken):.3f} to "
            f"{max(taken):.3f} s"
        )
    again = statistics.median(found["true: again"])
    print(f"true on open connections: {again:.3f} s (bound {AGAIN} s)")
    for what, bound in BOUNDS.items():
        for key, name in (
            ("seconds", "from the first connection on"),
            ("process", "whole process"),
        ):
            pairs = zip(found[f"{what}: {key}"], found[f"{what}: pdsh"], strict=True)
            print(
                f"{what}, {name} / pdsh: {statistics.median(a / b for a, b in pairs):.3f} (bound "
                f"{bound})"
            )


def main() -> None:
    """Run the rounds; or be the child that they time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--hosts", type=int, default=COUNT)
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        hosts = Loopback(given.folder, given.port, given.hosts).hosts()
        print(json.dumps(CHILDREN[given.child](hosts)))
        return
    with tempfile.TemporaryDirectory() as folder, loopback(Path(folder), given.hosts) as server:
        report(rounds(server, given.rounds), given.hosts)


if __name__ == "__main__":
    main()
