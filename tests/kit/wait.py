"""The one way in which tests wait: until a condition holds, with a guard against hanging.

The guard is generous on purpose. It never says how long something may take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

GUARD = 180.0
"""Seconds after which a test counts as hanging."""
PAUSE = 0.005
"""Seconds between two looks, at the least."""
LOOKING = 0.2
"""The part of a core that looking may take: what is waited for needs the CPU as well."""


def wait(condition: Callable[[], object], what: str, seconds: float = GUARD) -> None:
    """Return once the condition holds; fail where the guard runs out first."""
    for _ in looks(what, seconds):
        before = time.thread_time()
        if condition():
            return
        time.sleep(max(PAUSE, (time.thread_time() - before) / LOOKING))


def looks(
    what: str, seconds: float = GUARD, shown: Callable[[], str] = lambda: ""
) -> Iterator[None]:
    """The turns of a loop that waits for `what`; fail where the guard runs out, and say what is
    `shown` then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
    raise AssertionError(f"not within {seconds:g} s: {what}\n{shown()}".rstrip())
