"""Measures the NVIDIA GPUs of this host's ranks, by one `nvidia-smi` that runs beside them.

It is started once and prints every second: each start takes half a second of system time on some
hosts. Whatever becomes of it, the run goes on: without it there are no samples.
"""

from __future__ import annotations

import math
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from training.wire.commands import Placement
from training.wire.events import GpuSample

FIELDS = (
    *("index", "uuid", "utilization.gpu", "memory.used", "memory.total"),
    *("clocks.sm", "clocks.max.sm"),
)
REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active", "")
"""The field that tells why a clock is low: its name since driver 535, and before. Which ones a
driver knows is found out by asking."""
FORMAT = ("--format=csv,noheader,nounits", "-lms", "1000")
LIMIT = 15.0
"""Seconds without a sample from which on `nvidia-smi` hangs."""
BLOCK = 1 << 16
MIB = 1 << 20


class GpuReading(NamedTuple):
    """A line of `nvidia-smi`: a GPU by its index and UUID, and the figures of `GpuSample`."""

    place: str
    uuid: str
    use: float
    memory_used: int
    memory_total: int
    clock: int
    clock_most: int
    reasons: int


class GpuSampler:
    """Samples the GPUs of ranks. `say` gets the reason, once, where that comes to an end. Times are
    by the monotonic clock."""

    def __init__(self, selector: selectors.BaseSelector, say: Callable[[str], None]) -> None:
        self._selector = selector
        self._say = say
        self._devices: dict[int, str] = {}
        self._ways = list(REASONS) if shutil.which("nvidia-smi") else []
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._readings: list[GpuReading] = []
        self._until = math.inf
        self._worked = False

    def place(self, placements: Sequence[Placement]) -> None:
        """Remember which GPU each of these ranks will use."""
        devices = {
            placement.rank: find_device({**os.environ, **dict(placement.env)}, placement.local_rank)
            for placement in placements
        }
        self._devices = {rank: name for rank, name in devices.items() if name}

    def sample(self, live: Collection[int]) -> Iterator[GpuSample]:
        """Yield what was measured since the previous call, of these running ranks."""
        devices = {rank: self._devices[rank] for rank in live if rank in self._devices}
        if not devices:
            self.end()
        elif self._process is None:
            self._begin()
        elif time.monotonic() > self._until:
            self._give_up(f"it has printed nothing for {LIMIT:g} s")
        readings = self._readings
        self._readings = []
        for rank, name in devices.items():
            for gpu in readings:
                if name == gpu.place or (len(name) > 4 and gpu.uuid.startswith(name)):
                    yield GpuSample(rank, *gpu[2:])
                    break

    def end(self) -> None:
        """End `nvidia-smi`, if it runs. The agent reaps it."""
        if self._process and self._process.stdout:
            self._selector.unregister(self._process.stdout)
            self._process.stdout.close()
            self._process.kill()
            self._process.returncode = 0  # the agent reaps all children: Popen must not wait for it
        self._process = None
        self._rest = b""
        self._until = math.inf

    def _begin(self) -> None:
        """Start `nvidia-smi` in the first way that is left to try."""
        if not self._ways:
            return
        query = ",".join(filter(None, (*FIELDS, self._ways[0])))
        argv = ["nvidia-smi", f"--query-gpu={query}", *FORMAT]
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._give_up(str(error.strerror))
            return
        assert process.stdout
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, self._hear)
        self._process, self._until = process, time.monotonic() + LIMIT

    def _hear(self) -> None:
        assert self._process
        assert self._process.stdout
        block = self._process.stdout.read(BLOCK)
        if block is None:
            return
        if not block:
            self._ended()
            return
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._rest = self._rest[-BLOCK:]
        readings = list(filter(None, map(parse_reading, lines)))
        if readings:
            latest = {reading.place: reading for reading in (*self._readings, *readings)}
            self._readings = list(latest.values())
            self._until = time.monotonic() + LIMIT
            self._worked = True

    def _ended(self) -> None:
        """Try the next way to start `nvidia-smi`.

        If nothing is left to try, that is reported if it worked before: it may well be there
        without any GPU.
        """
        self.end()
        if len(self._ways) == 1 and self._worked:
            self._give_up("it has ended")
        self._ways = self._ways[1:]

    def _give_up(self, reason: str) -> None:
        self.end()
        self._ways = []
        self._say(f"GPUs are no longer measured: nvidia-smi: {reason}")


def find_device(env: Mapping[str, str], local_rank: int) -> str:
    """Return the GPU that CUDA gives to a rank of this environment: its index, or the beginning of
    its UUID; "" if it has none, or a part of one."""
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(local_rank)
    names: list[str] = []
    for name in map(str.strip, visible.split(",")):
        if not (name.isdecimal() or name.startswith(("GPU-", "MIG-"))):
            break  # CUDA ignores all that follow
        names.append(name)
    own_name = names[local_rank] if local_rank < len(names) else ""
    return "" if own_name.startswith("MIG-") else own_name


def parse_reading(line: bytes) -> GpuReading | None:
    """Parse a line of `nvidia-smi`; None if it is something else, such as a warning.

    Figures that the GPU does not report, as "[N/A]", are NaN and 0.
    """
    fields = [field.strip() for field in line.decode(errors="replace").split(",")]
    if len(fields) not in (len(FIELDS), len(FIELDS) + 1) or not fields[0].isdecimal():
        return None
    place, uuid, use, *others = fields
    used, total, clock, clock_most = (_number(other) for other in others[:4])
    reasons = _number(others[4]) if len(others) > 4 else 0
    percent = float(use) if use.isdecimal() else math.nan
    if percent > 100:
        return None
    return GpuReading(place, uuid, percent, used * MIB, total * MIB, clock, clock_most, reasons)


def _number(text: str) -> int:
    """Parse a number, also as "0x04"; 0 if it is none, or too large."""
    try:
        return int(text, 0) if len(text) <= 18 else 0
    except ValueError:
        return 0
