"""Watches a user's own program while it trains, without a line changed and without a print.

Runs in the user's process, on any Python from 3.9 and any torch from 2.0; `sitecustomize` of the
agent loads it by its path. It says what it sees over a pipe, as the wire event `StepFinished`.

What the program starts is watched as well, but is silent until it joins a process group: then it is
a worker, see `report`. Processes that load data never are.

It takes part in nothing: it never waits for a GPU, changes no result, and is in no traceback. What
fails in it is said once, and ends it. Only at the end of a program it helps it: see `gloo`.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

from .gloo import let_gloo_finish
from .hooks import Hooks
from .report import Program, WatchReport
from .steps import Steps


def begin(channel: str) -> Callable[[], None]:
    """Watch this process, and write to the pipe that `channel` says: NUMBER:PID:INODE.

    The function that is returned is to be called now and then while torch is imported.
    """
    atexit.register(let_gloo_finish)
    report = WatchReport(channel, Program.read(os.environ))
    hooks = Hooks(Steps(report.steps), report)
    # What was imported last has been followed by no other import, which would have hooked it.
    os.register_at_fork(after_in_child=hooks.look)
    atexit.register(hooks.end)  # runs before that of `report`, which was registered earlier
    return hooks.look
