"""Settings of the Python interpreter that keep the command and its dashboard quick."""

from __future__ import annotations

import gc
import sys

LOADED_OBJECTS = 200_000
"""New objects after which Python looks for garbage while modules load, which leave hardly any: more
than the dashboard and its first screen have. Python's own number is 700."""
NEW_OBJECTS = 50_000
"""New objects after which it looks for garbage from then on."""
SWITCH_INTERVAL = 0.001
"""Seconds for which another thread may keep a frame waiting; Python's own number is 0.005."""


def collect_seldom() -> None:
    """Look for garbage seldom.

    With Python's own number, it would search all modules over and over while they load. To search
    all lines of a log takes as long as several frames.
    """
    gc.set_threshold(LOADED_OBJECTS, *gc.get_threshold()[1:])


def keep_loaded_modules() -> None:
    """Never search what is loaded by now for garbage: modules stay until the end. What comes is
    searched in small parts, so that no frame waits long."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def switch_threads_often() -> None:
    """Let threads take turns quickly.

    Drawing gives way to other threads, such as the one that reads records, many times a frame, so
    that Python's own interval would add up.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)


def return_free_memory() -> None:
    """Give back to the system what is free within the heap, where the C library can (glibc).

    What is read and drawn comes and goes between objects that stay. Without this, the heap of a run
    of hours would be holes for the most part.
    """
    import ctypes  # takes a while, and no other command needs it

    trim_heap = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim_heap:
        trim_heap(0)
