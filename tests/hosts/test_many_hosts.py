"""A launcher with so many hosts that it opens more than 1024 files."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from remote.cluster.hosts import Host
from remote.transport import registry
from remote.transport.process_channel import ProcessChannel, start_process
from remote.transport.registry import FILES_PER_HOST, OTHER_FILES, Transports
from remote.transport.slurm import SlurmChannel

USUAL = 1024
"""The soft limit of most systems."""


@pytest.fixture
def most() -> Iterator[int]:
    """The files that this process may open at the most; it begins with the usual number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def hosts(number: int) -> list[Host]:
    return [Host(f"n{one}", "here", transport="local") for one in range(number)]


def test_the_limit_of_files_grows_with_the_hosts(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Transports(hosts(20))
    assert limit() == USUAL, "programs inherit it"
    Transports(hosts(300))
    assert limit() == min(FILES_PER_HOST * 300 + OTHER_FILES, most)
    Transports(hosts(200))
    assert limit() == min(FILES_PER_HOST * 300 + OTHER_FILES, most)
    monkeypatch.setattr(registry, "FILES_PER_HOST", most)
    Transports(hosts(2))
    assert limit() == most


@pytest.mark.parametrize(
    "channel", [ProcessChannel, partial(SlurmChannel, job="1", stays=False)], ids=["local", "slurm"]
)
def test_a_channel_of_any_descriptor_ends(channel: type[ProcessChannel], most: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * USUAL), most))
    with ExitStack() as files:
        while (file := os.open(os.devnull, os.O_RDONLY)) < USUAL:
            files.callback(os.close, file)
        files.callback(os.close, file)
        process = start_process(["sh", "-c", "cat; echo done >&2"])
        made = channel(process)
        made.write(b"hello")
        assert made.read() == b"hello"
        assert made.close() == "done"
    assert process.poll() == 0
