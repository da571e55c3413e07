"""Reports where this rank waits for all others, before its first step.

Ranks that have not come there are those that hold up the start. After the first step nothing is
reported: how long a rank waits then is part of its steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any
from urllib.parse import parse_qsl, urlsplit

POINT_TO_POINT = ("send", "recv", "send_object_list", "recv_object_list")
"""Functions that wait for one other rank."""
MOST_MEETINGS = 100
"""Meetings that are reported: a program that never makes a step may have millions."""


class Meetings:
    """The functions in which this rank waits for all others. Of nested ones, only the outermost
    counts."""

    def __init__(self, report: Callable[[str, str, str], None]) -> None:
        """Report by `report(phase, function name, address)`."""
        self._report = report
        self._meeting_count = 0
        self._depths: dict[int, int] = {}
        """By thread, how many functions run that are part of a meeting."""

    def restart(self) -> None:
        """Forget all meetings: this is another process."""
        self._meeting_count = 0
        self._depths.clear()

    def begin(self, name: str, group: Any = None, address: str = "") -> None:
        """Note that a function begins in which the ranks of a group meet; None is all ranks."""
        thread = get_ident()
        depth = self._depths.get(thread, 0)
        if not depth:
            is_of_all = group is None or is_of_all_ranks(group)
            if not is_of_all or self._meeting_count >= MOST_MEETINGS:
                return
            self._meeting_count += 1
            self._report("joining", name, address)
        self._depths[thread] = depth + 1

    def end(self) -> None:
        """Note that the function ends that began last, if it is part of a meeting."""
        if not self._depths:
            return
        thread = get_ident()
        depth = self._depths.pop(thread, 0)
        if depth == 1:
            self._report("training", "", "")
        elif depth:
            self._depths[thread] = depth - 1


def read_place(arguments: Mapping[str, Any], env: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the rank and the world size with which a process joins a process group: by the
    arguments of `init_process_group`, in its URL, or by the environment. None if only its backend
    knows them."""
    url = urlsplit(str(arguments.get("init_method") or "env://"))
    query = dict(parse_qsl(url.query))
    numbers = []
    for name in ("rank", "world_size"):
        argument = arguments.get(name, -1)
        if type(argument) is int and argument >= 0:
            numbers.append(argument)
            continue
        text = query.get(name) or (env.get(name.upper(), "") if url.scheme == "env" else "")
        if not text.isdigit():
            return None
        numbers.append(int(text))
    rank, world_size = numbers
    return (rank, world_size) if rank < world_size else None


def read_address(arguments: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Return the HOST:PORT where the ranks of a process group meet, by the URL of
    `init_process_group` or the environment; "" if they do not meet at one."""
    if arguments.get("store") is not None:
        return ""
    url = urlsplit(str(arguments.get("init_method") or "env://"))
    if url.scheme == "env":
        address, port = env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", "")
        return f"{address}:{port}" if address and port else ""
    return url.netloc if url.scheme == "tcp" else ""


def is_of_all_ranks(group: Any) -> bool:
    """Return True if this is the group of all ranks."""
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    return group is vars(c10d)["GroupMember"].WORLD
