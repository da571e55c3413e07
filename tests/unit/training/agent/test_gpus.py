"""GPUs are measured by nvidia-smi, and nothing that it does hurts a run."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit.wait import looks
from training.agent.host import gpus
from training.agent.host.gpus import MIB, GpuSampler, find_device, parse_reading
from training.wire.commands import Placement
from training.wire.host_events import GpuSample

LINE = "0, GPU-8a5f, 97, 71680, 81559, 1410, 1980, 0x0000000000000004"
ROWS = f'printf "%s\\n" "{LINE}" "1, GPU-77c0, 12, 512, 81559, 345, 1980, 0x0000000000000001"'
FOREVER = "exec sleep 600"


class Host:
    """A host whose nvidia-smi is a script; the loop of its agent."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        self._selector = selectors.DefaultSelector()
        self.said: list[str] = []

    def with_tool(self, script: str) -> GpuSampler:
        """Measures the GPUs of ranks 4 and 5."""
        path = self._folder / "nvidia-smi"
        path.write_text(f'#!/bin/sh\necho $$ "$*" >> {self._folder}/starts\n{script}\n')
        path.chmod(0o755)
        return self.without_tool()

    def without_tool(self) -> GpuSampler:
        """The same, with the nvidia-smi that there is."""
        found = GpuSampler(self._selector, self.said.append)
        ranks = [Placement(rank, place, ("train",), ()) for place, rank in enumerate((4, 5))]
        found.place(ranks)
        return found

    @property
    def starts(self) -> list[tuple[int, str]]:
        """The pid and arguments of each start of it."""
        told = self._folder / "starts"
        lines = told.read_text().splitlines() if told.exists() else []
        return [(int(line.split()[0]), line.partition(" ")[2]) for line in lines]

    def turn(self, found: GpuSampler, *live: int) -> list[GpuSample]:
        """A turn of the loop."""
        samples = list(found.sample(live or (4, 5)))
        for key, _ in self._selector.select(0.01):
            key.data()
        return samples

    def first(self, found: GpuSampler, *live: int) -> list[GpuSample]:
        """The first samples of these ranks, or of all."""
        for _ in looks("samples"):
            if samples := self.turn(found, *live):
                return samples
        return []

    def is_idle(self) -> bool:
        """Whether nothing is listened to, and no process of it is left. Reaps those that ended, as
        an agent does."""
        for pid, _ in self.starts:
            with contextlib.suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    return False
        return not self._selector.get_map()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path, monkeypatch)
    yield made
    for _ in looks("nvidia-smi to end"):
        if made.is_idle():
            break


def wait(host: Host, found: GpuSampler, wanted: Callable[[], bool]) -> list[GpuSample]:
    samples: list[GpuSample] = []
    for _ in looks("nvidia-smi"):
        samples += host.turn(found)
        if wanted():
            break
    return samples


def test_each_rank_gets_the_figures_of_its_gpu_as_they_change(host: Host) -> None:
    found = host.with_tool(f"{ROWS}; sleep 0.1; {ROWS} | sed 's/ 97,/ 45,/'; {FOREVER}")
    samples: list[GpuSample] = []
    for _ in looks("samples"):
        samples += host.turn(found)
        if any(one.use == 45 for one in samples):
            break
    assert samples[0] == GpuSample(4, 97.0, 71680 * MIB, 81559 * MIB, 1410, 1980, 4)
    assert GpuSample(5, 12.0, 512 * MIB, 81559 * MIB, 345, 1980, 1) in samples
    assert len(host.starts) == 1, "it keeps running"
    assert host.turn(found) == [], "nothing is told twice"
    found.end()


def test_it_ends_with_the_ranks_and_starts_with_others(host: Host) -> None:
    found = host.with_tool(f"{ROWS}; {FOREVER}")
    host.first(found)
    assert list(found.sample(())) == []
    for _ in looks("its end"):
        if host.is_idle():
            break
    assert [one.rank for one in host.first(found, 5)] == [5]
    assert len(host.starts) == 2
    found.end()
    assert host.said == []


@pytest.mark.parametrize(
    "script",
    [
        "echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'; exit 9",
        "head -c 300000 /dev/urandom; exit 0",
        "kill -9 $$",
    ],
    ids=["no driver", "garbage", "killed"],
)
def test_where_it_fails_it_is_left_alone(host: Host, script: str) -> None:
    found = host.with_tool(script)
    assert wait(host, found, lambda: len(host.starts) == 1 and host.is_idle()) == []
    assert host.turn(found) == []
    assert host.turn(found) == []
    assert len(host.starts) == 1
    assert host.said == [], "there may be no GPU at all"


def test_where_it_fails_later_that_is_said_once(host: Host) -> None:
    found = host.with_tool(ROWS)
    wait(host, found, lambda: bool(host.said) and host.is_idle())
    assert host.turn(found) == []
    assert host.said == ["GPUs are no longer measured: nvidia-smi: it has ended"]


def test_where_it_hangs_it_is_killed_and_that_is_said(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "LIMIT", 0.2)
    found = host.with_tool(FOREVER)
    wait(host, found, lambda: bool(host.said) and host.is_idle())
    assert host.turn(found) == []
    assert host.said == [
        "GPUs are no longer measured: nvidia-smi: it has printed nothing for 0.2 s"
    ]
    assert len(host.starts) == 1


def test_where_there_is_none_nothing_is_started(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.turn(host.without_tool()) == []
    assert host.is_idle()
    assert host.said == []


def test_figures_that_a_gpu_does_not_tell_are_unknown() -> None:
    partitioned = parse_reading(b"3, GPU-1b, [N/A], 20480, 40960, 1410, 1410, 0x0000000000000000")
    assert partitioned
    assert math.isnan(partitioned.use)
    assert partitioned[3:] == (20480 * MIB, 40960 * MIB, 1410, 1410, 0)
    old = parse_reading(
        b"0, GPU-2c, [Not Supported], 10, 20, [Not Supported], [N/A], [Unknown Error]"
    )
    assert old
    assert old[3:] == (10 * MIB, 20 * MIB, 0, 0, 0)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"WARNING: infoROM is corrupted at gpu 0000:02:00.0",
        b"No devices were found",
        b"0, GPU-1, 97",
        b"x, GPU-1, 97, 1, 2, 3, 4, 0x0",
        b"0, GPU-1, 970, 1, 2, 3, 4, 0x0",
        b"\xff\xfe\x00, , , , , , ",
    ],
)
def test_a_line_that_is_no_reading_is_none(line: bytes) -> None:
    assert parse_reading(line) is None


@pytest.mark.parametrize(
    ("visible", "local_rank", "expected"),
    [
        (None, 0, "0"),
        (None, 3, "3"),
        ("2,3", 0, "2"),
        ("2, 3", 1, "3"),
        ("2,3", 2, ""),
        ("", 0, ""),
        ("-1", 0, ""),
        ("1,-1,2", 1, ""),
        ("NoDevFiles", 0, ""),
        ("GPU-8a5f,GPU-77c0", 1, "GPU-77c0"),
        ("MIG-4d1c", 0, ""),
    ],
)
def test_a_rank_uses_the_gpu_that_cuda_shows_it(
    visible: str | None, local_rank: int, expected: str
) -> None:
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert find_device(env, local_rank) == expected


def test_a_gpu_is_found_by_the_beginning_of_its_uuid(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    found = host.with_tool(f"{ROWS}; {FOREVER}")
    env = (("CUDA_VISIBLE_DEVICES", "GPU-77"),)
    found.place([Placement(4, 0, ("train",), env)])
    samples = host.first(found)
    assert [(one.rank, one.use) for one in samples] == [(4, 12.0)]
    found.end()
