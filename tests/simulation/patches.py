"""Puts the simulated world in the place of clocks, disks, processes and threads."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from remote.host_commands import journals
from remote.plan import needs, serialize
from remote.session import pool, session
from tests.simulation.agent import (
    AgentOs,
    Collector,
    Dialler,
    Facts,
    Gpus,
    HostRanks,
    HostStarter,
    Ports,
    Processes,
    Sampler,
    Selectors,
    keep_file,
    make_journal,
)
from tests.simulation.disk import DiskOs
from tests.simulation.here import HostTime, LauncherTime
from tests.simulation.launcher import Mailbox, Reading, Threading
from tests.simulation.network import Connection
from training import registry
from training.agent import guard, journal, server
from training.agent.ranks import before, ranks

DISK = DiskOs()


@contextmanager
def simulated() -> Iterator[None]:
    """Agents and sessions that are made inside live in the simulated world."""
    changed: list[tuple[Any, dict[str, Any]]] = [
        (server, {"time": HostTime, "os": AgentOs, "selectors": Selectors, "facts": Facts}),
        (
            server,
            {
                "processes": Processes,
                "ports": Ports,
                "keep_file": keep_file,
                "Journal": make_journal,
            },
        ),
        (server, {"RankProcesses": HostRanks, "RankStarter": HostStarter, "Dialler": Dialler}),
        (server, {"StackCollector": Collector, "sampler": Sampler, "GpuSampler": Gpus}),
        (before, {"time": HostTime, "processes": Processes}),
        (ranks, {"time": HostTime, "processes": Processes}),
        (
            journal,
            {
                "os": DISK,
                "time": HostTime,
                "open_regular": DISK.open,
                "write_whole": DISK.write_whole,
            },
        ),
        (guard, {"_last_log_line": lambda: "OSError: [Errno 28] No space left on device"}),
        (session, {"time": LauncherTime, "threading": Threading, "SimpleQueue": Mailbox}),
        (pool, {"time": LauncherTime, "Connection": Connection}),
        (journals, {"JournalReader": Reading}),
        (serialize, {"dump": _dump}),
        (registry, {"list_names": _names, "source_file": _source}),
        (needs, {"needs_of_job": _needs_of}),
    ]
    with ExitStack() as stack:
        for module, names in changed:
            stack.enter_context(patch.multiple(module, **names))
        yield
    DISK.clear()


_names = functools.lru_cache(64)(registry.list_names)
_source = functools.lru_cache(64)(registry.source_file)
_needs_of = functools.lru_cache(64)(needs.needs_of_job)
_dump = functools.lru_cache(64)(serialize.dump)
"""As the real ones, which look into files each time."""
