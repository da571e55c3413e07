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
from functools import partial
from typing import IO, NamedTuple

from training.wire.commands import Placement
from training.wire.host_events import GpuSample

FIELDS = (
    *("index", "uuid", "utilization.gpu", "memory.used", "memory.total"),
    *("clocks.sm", "clocks.max.sm", "clocks_event_reasons.active"),
)
"""What is asked for. Drivers before 535 have another name for the last one, and print nothing; no
torch that rankboard runs needs one of them."""
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

    def __init__(self, selector: selectors.BaseSelector, complain: Callable[[str], None]) -> None:
        self._selector = selector
        self._complain = complain
        self._devices: dict[int, str] = {}
        self._is_usable = shutil.which("nvidia-smi") is not None
        self._process: subprocess.Popen[bytes] | None = None
        self._partial_line = b""
        self._readings: dict[str, GpuReading] = {}
        self._hangs_after = math.inf
        self._has_worked = False

    def place(self, placements: Sequence[Placement]) -> None:
        """Remember which GPU each of these ranks will use."""
        self._devices.clear()
        for placement in placements:
            device = find_device(dict(os.environ) | dict(placement.env), placement.local_rank)
            if device:
                self._devices[placement.rank] = device

    def sample(self, live_ranks: Collection[int]) -> Iterator[GpuSample]:
        """Yield what was measured since the previous call, of these running ranks."""
        devices = {rank: self._devices[rank] for rank in live_ranks if rank in self._devices}
        if not devices:
            self.end()
        elif self._process is None:
            self._start_process()
        elif time.monotonic() > self._hangs_after:
            self._give_up(f"it has printed nothing for {LIMIT:g} s")
        readings = list(self._readings.values())
        self._readings.clear()
        for rank, device in devices.items():
            for gpu in readings:
                # `GPU-` alone, four characters, would fit every GPU.
                is_uuid = len(device) > 4 and gpu.uuid.startswith(device)
                if device == gpu.place or is_uuid:
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
        self._partial_line = b""
        self._hangs_after = math.inf

    def _start_process(self) -> None:
        if not self._is_usable:
            return
        try:
            self._process = subprocess.Popen(
                ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", *FORMAT],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._give_up(str(error.strerror))
            return
        stdout = self._process.stdout
        assert stdout
        read_output = partial(self._read_output, stdout)
        self._selector.register(stdout, selectors.EVENT_READ, read_output)
        self._hangs_after = time.monotonic() + LIMIT

    def _read_output(self, stdout: IO[bytes]) -> None:
        output_block = stdout.read(BLOCK)
        if not output_block:
            # If it never worked, there may well be no GPU on this host.
            self._give_up("it has ended" if self._has_worked else "")
            return
        *lines, self._partial_line = (self._partial_line + output_block).split(b"\n")
        # A line without an end is not nvidia-smi's, and must not fill the memory.
        self._partial_line = self._partial_line[-BLOCK:]
        for reading in filter(None, map(parse_reading, lines)):
            self._readings[reading.place] = reading
            self._hangs_after = time.monotonic() + LIMIT
            self._has_worked = True

    def _give_up(self, reason: str) -> None:
        self.end()
        self._is_usable = False
        if reason:
            self._complain(f"GPUs are no longer measured: nvidia-smi: {reason}")


def find_device(rank_env: Mapping[str, str], local_rank: int) -> str:
    """Return the GPU that CUDA gives to a rank of this environment: its index, or the beginning of
    its UUID; "" if it has none, or a part of one."""
    visible_devices = rank_env.get("CUDA_VISIBLE_DEVICES")
    if visible_devices is None:
        return str(local_rank)
    device_names: list[str] = []
    for device_name in map(str.strip, visible_devices.split(",")):
        if not (device_name.isdecimal() or device_name.startswith(("GPU-", "MIG-"))):
            break  # CUDA ignores all that follow
        device_names.append(device_name)
    own_name = device_names[local_rank] if local_rank < len(device_names) else ""
    return "" if own_name.startswith("MIG-") else own_name


def parse_reading(line: bytes) -> GpuReading | None:
    """Parse a line of `nvidia-smi`; None if it is something else, such as a warning.

    Figures that the GPU does not report, as "[N/A]", are NaN and 0.
    """
    line_fields = [field.strip() for field in line.decode(errors="replace").split(",")]
    if len(line_fields) != len(FIELDS) or not line_fields[0].isdecimal():
        return None
    place, uuid, use_text, *other_fields = line_fields
    percent = float(use_text) if use_text.isdecimal() else math.nan
    if percent > 100:
        return None
    used_mib, total_mib, clock_now, clock_most, reasons = map(_parse_number, other_fields)
    return GpuReading(
        place, uuid, percent, used_mib * MIB, total_mib * MIB, clock_now, clock_most, reasons
    )


def _parse_number(text: str) -> int:
    """Parse a number, also as "0x04"; 0 if it is none, or too large."""
    try:
        return int(text, 0) if len(text) <= 18 else 0
    except ValueError:
        return 0
