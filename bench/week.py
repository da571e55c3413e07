"""What a run of a week costs: 10 million steps of 4 ranks, each on a host of its own.

The run is made up, by the code that ranks, agents and launchers write it with, and kept in a folder
if one is given. Then each command that people use on such a run is started as they start it.

size      bytes per step and rank on the launcher's disk, and on a host's
cpu       CPU time per step and rank of an agent and of a launcher
screens   `open`, `watch` and `attach` until the first screen: seconds and memory
commands  `runs`, `ps`, `logs`, `stop`: seconds
files     `report` and `export`: seconds and memory

Prints each figure with its bound; then how long a plain read of the record's bytes takes, and how
many times as long each command that reads all steps does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parts.long_run import RUN, LongRun
from parts.terminal import Terminal

from remote.record.layout import EVENTS, STEP_CHUNKS

RANKBOARD = str(Path(sys.executable).with_name("rankboard"))
MIB = 1 << 20
LAST_LOSS = "loss"
"""A word of the first screen of a run."""


@dataclass(frozen=True)
class Figure:
    """A figure and its bound; a smaller one is better."""

    name: str
    value: float
    bound: float
    unit: str

    def __str__(self) -> str:
        verdict = "" if self.value <= self.bound else "  MISSED"
        return f"{self.name:<42} {self.value:>9.2f} {self.bound:>7g} {self.unit}{verdict}"


@dataclass(frozen=True)
class Use:
    """What a command has used: seconds until its end or first screen, CPU seconds, MiB of memory at
    the most."""

    seconds: float
    cpu: float
    memory: float


def folder_size(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run_command(folder: Path, *words: str) -> Use:
    """Run a command to its end."""
    began = time.monotonic()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen((RANKBOARD, *words), cwd=folder, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{words}: {(folder / 'output').read_text()[-2000:]}")
    return Use(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def open_screen(folder: Path, *words: str) -> Use:
    """Open a screen, and leave it."""
    began = time.monotonic()
    terminal = Terminal((RANKBOARD, *words), folder)
    terminal.read_until(LAST_LOSS)
    seconds, cpu = time.monotonic() - began, terminal.cpu
    memory = peak_memory(terminal.pid)
    terminal.leave()
    return Use(seconds, cpu, memory)


def peak_memory(pid: int) -> float:
    """MiB that a process has had in RAM at the most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


def sizes(run: LongRun) -> Iterator[Figure]:
    """The sizes of what is on the disks."""
    steps = run.steps * run.ranks
    recorded = folder_size(run.runs_dir / RUN) / steps
    yield Figure("run directory, per step and rank", recorded, 45, "bytes")
    journals = sum(folder_size(Path(run.plan.folder(rank))) for rank in range(run.ranks)) / steps
    yield Figure("journal of a host, per step and rank", journals, 45, "bytes")


def screens(run: LongRun) -> Iterator[Figure]:
    """The first screens."""
    for command in ("open", "watch", "attach"):
        use = open_screen(run.folder, command, RUN)
        yield Figure(f"{command}: first screen", use.seconds, 2, "s")
        yield Figure(f"{command}: CPU", use.cpu, 2, "s")
        yield Figure(f"{command}: memory", use.memory, 200, "MiB")


def commands(run: LongRun) -> Iterator[Figure]:
    """Commands that say a word."""
    for words in (("runs",), ("ps",), ("logs", "--tail", "5", RUN), ("stop", RUN)):
        use = run_command(run.folder, *words)
        name = " ".join(word for word in words if word != RUN)
        yield Figure(name, use.seconds, 1, "s")
        yield Figure(f"{name}: CPU", use.cpu, 1, "s")


def files(run: LongRun) -> Iterator[tuple[Figure, bool]]:
    """What reads all steps."""
    rows = run.steps * run.ranks
    for name, words, bound in (
        ("report", ("report", RUN, "--out", str(run.folder / "report")), 60.0),
        ("export csv", ("export", RUN, "--to", "csv", "--force"), max(60.0, rows / 1e6)),
    ):
        use = run_command(run.folder, *words)
        yield Figure(name, use.seconds, bound, "s"), True
        yield Figure(f"{name}: memory", use.memory, 500, "MiB"), False


def plain_read(path: Path) -> float:
    """Seconds that a plain read of a file takes, from the page cache if it is there."""
    began = time.monotonic()
    with path.open("rb") as file:
        while file.read(MIB):
            pass
    return time.monotonic() - began


def make(run: LongRun) -> Iterator[Figure]:
    """Make the run, and yield what its parts took."""
    began = time.monotonic()
    costs = run.make()
    print(f"made in {time.monotonic() - began:.0f} s", flush=True)
    per_step = 1e6 / (run.steps * run.ranks)
    yield Figure("agent, CPU per step and rank", costs.agent * per_step, 5, "µs")
    yield Figure("launcher, CPU per step and rank", costs.launcher * per_step, 8, "µs")
    with_json = (costs.launcher + costs.json) * per_step
    yield Figure("launcher with --run --json", with_json, 15, "µs")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--block", type=int, default=100, help="steps of a rank in a record")
    parser.add_argument("--rate", type=float, default=100.0, help="steps of a rank in a second")
    parser.add_argument("--folder", type=Path, help="where the run is made and kept, or is already")
    parser.add_argument("--without-files", action="store_true", help="no report and no export")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rankboard-week-") as temporary:
        folder = given.folder or Path(temporary)
        run = LongRun(folder.resolve(), given.steps, rate=given.rate, block=given.block)
        # What signs the run, and what the commands remember, is apart from that of other runs.
        os.environ["XDG_STATE_HOME"] = str(run.folder / "state")
        os.environ["XDG_CONFIG_HOME"] = str(run.folder / "config")
        print(f"{'':<42} {'measured':>9} {'bound':>7}")
        if not run.runs_dir.exists():
            run.folder.mkdir(parents=True, exist_ok=True)
            for figure in make(run):
                print(figure, flush=True)
        for figures in (sizes, commands, screens):
            for figure in figures(run):
                print(figure, flush=True)
        ratios = []
        if not given.without_files:
            folder = run.runs_dir / RUN
            read = sum(plain_read(folder / name) for name in (EVENTS, STEP_CHUNKS))
            for figure, reads_all in files(run):
                print(figure, flush=True)
                if reads_all:
                    ratios.append(f"{figure.name} {figure.value / read:.1f}")
            print(f"a plain read of the record: {read:.2f} s; times as long: {', '.join(ratios)}")


if __name__ == "__main__":
    main()
