"""Two groups of processes below this one that take turns: one is stopped while the other runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from training.agent.host import processes


class Turns:
    """The processes of `roots` and all below them are one group, all others below this process the
    other one.

    SIGCONT is blocked in them, as they inherit it: they go on all the same, but no handler runs.
    Textual's would draw the whole screen anew and start another thread that reads the keyboard.
    """

    def __init__(self) -> None:
        self.roots: Sequence[int] = ()
        processes.become_subreaper()  # those whose parents end stay below this process
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})

    def let(self, others: bool) -> None:
        """Stop one group, then let the other go on."""
        stopped = set[int]()
        while new := set(self._group(not others)) - stopped:  # one may have forked meanwhile
            _send(new, signal.SIGSTOP)
            stopped |= new
        _send(self._group(others), signal.SIGCONT)

    def let_all(self) -> None:
        """Let both go on."""
        _send(processes.descendants(os.getpid()), signal.SIGCONT)

    def _group(self, others: bool) -> list[int]:
        own = [pid for root in self.roots for pid in (root, *processes.descendants(root))]
        if not others:
            return own
        return [pid for pid in processes.descendants(os.getpid()) if pid not in own]


def _send(pids: Sequence[int] | set[int], number: int) -> None:
    for pid in pids:
        processes.send(pid, number)
