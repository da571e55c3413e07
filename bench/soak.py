"""A run of an hour over three sshd hosts, each rank at 300 steps a second, with the dashboard open
at 160x48: what memory the launcher and the agents have, minute by minute.

The ranks only report made-up steps, as no training is so quick here. Prints a row a minute: MiB of
the dashboard and of the agents together, bytes of the record, and the CPU share of the dashboard
since the row before. Then by how much the memory of each has grown from the middle of the run to
its end; a tenth is the bound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from parts.loopback import Loopback, loopback
from parts.terminal import Terminal

from remote.record.layout import STEP_CHUNKS

RANKBOARD = str(Path(sys.executable).with_name("rankboard"))
HOSTS, RATE, MINUTES = 3, 300, 60.0
GROWTH = 1.10
ROW = 60.0
PROGRAM = """
import os, random, struct, sys, time
from binascii import b2a_base64

rate, steps = float(sys.argv[1]), int(sys.argv[2])
rank, row = int(os.environ["RANK"]), struct.Struct("<i8d6q?")
began = time.time()
for step in range(1, steps + 1):
    late = began + step / rate - time.time()
    if late > 0.01:
        time.sleep(late)
    seconds = random.gauss(1, 0.05) / rate
    loss = 2.3 / (1 + step / 1e4) + random.random() / 10
    parts = (seconds * 0.02, seconds * 0.68, seconds * 0.3, seconds * 0.7, seconds)
    packed = row.pack(rank, time.time(), loss, seconds, *parts, 0, step, 32, 0, 0, 0, True)
    sys.stdout.write(f"@rankboard step {b2a_base64(packed, newline=False).decode()}\\n")
    if step % 20 == 0:
        sys.stdout.flush()
"""
"""Reports steps as a rank does, see `training.wire.step_block`."""


@dataclass(frozen=True)
class Look:
    """What the processes have at one moment. Memory in MiB, the record in bytes."""

    minute: float
    dashboard: float
    agents: float
    record: int
    cpu: float

    def __str__(self) -> str:
        return (
            f"{self.minute:>6.1f} {self.dashboard:>10.1f} {self.agents:>10.1f} "
            f"{self.record:>14,} {self.cpu:>8.1%}"
        )


def write_hosts(server: Loopback) -> Path:
    """Write a hosts file for the hosts of the server."""
    tables = [
        f'[[host]]\nname = "{host.name}"\naddress = "{host.address}"\nport = {host.port}\n'
        f'user = "{host.user}"\nidentity_file = "{host.identity_file}"\n'
        f'known_hosts = "{host.known_hosts}"\npython = "{host.python}"\n'
        f'workdir = "{host.workdir}"\n'
        for host in server.hosts()
    ]
    path = server.folder / "hosts.toml"
    path.write_text("\n".join(tables))
    return path


def memory_of_agents(server: Loopback) -> float:
    """MiB of the agents, whose working directories are below those of the hosts."""
    total = 0
    for process in psutil.process_iter():
        try:
            is_there = process.cwd().startswith(str(server.folder / "hosts"))
            if is_there and "ranks.py" not in " ".join(process.cmdline()):
                total += process.memory_info().rss
        except psutil.Error:
            continue
    return total / 2**20


def watch(server: Loopback, terminal: Terminal, minutes: float) -> Iterator[Look]:
    """Look once a minute."""
    began = seen = time.monotonic()
    cpu = terminal.cpu
    dashboard = psutil.Process(terminal.pid)
    (record,) = (server.folder / "runs").glob("*/events.jsonl")
    chunks = record.with_name(STEP_CHUNKS)
    while time.monotonic() - began < 60 * minutes:
        terminal.read_for(ROW - (time.monotonic() - began) % ROW)
        while time.monotonic() - seen < ROW - 1:
            terminal.read_for(1.0)
        now, used = time.monotonic(), terminal.cpu
        yield Look(
            (now - began) / 60,
            dashboard.memory_info().rss / 2**20,
            memory_of_agents(server),
            record.stat().st_size + chunks.stat().st_size,
            (used - cpu) / (now - seen),
        )
        seen, cpu = now, used


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=MINUTES)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rankboard-soak-") as folder,
        loopback(Path(folder), HOSTS) as server,
    ):
        program = server.folder / "ranks.py"
        program.write_text(PROGRAM)
        steps = int((given.minutes * 60 + 30) * RATE)
        words = (sys.executable, str(program), str(RATE), str(steps))
        hosts = write_hosts(server)
        terminal = Terminal(
            (RANKBOARD, "--hosts", str(hosts), "--name", "soak", "--no-watch", "--", *words),
            server.folder,
        )
        terminal.read_until("samples/s")
        print(f"{'minute':>6} {'dashboard':>10} {'agents':>10} {'record':>14} {'CPU':>8}")
        looks = []
        for look in watch(server, terminal, given.minutes):
            looks.append(look)
            print(look, flush=True)
        terminal.leave()
    middle, last = looks[len(looks) // 2], looks[-1]
    growth = last.dashboard / middle.dashboard, last.agents / middle.agents
    print(f"growth since the middle (bound {GROWTH}): dashboard and agents {growth[0]:.3f}", end="")
    print(f" and {growth[1]:.3f}")


if __name__ == "__main__":
    main()
