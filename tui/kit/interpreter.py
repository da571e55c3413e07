"""Settings of the Python interpreter that keep the command and its dashboard quick."""

from __future__ import annotations

import gc
import sys

LOADED_OBJECTS = 200_000
"""New objects after which Python looks for garbage while modules load, which leave hardly any: more
than the dashboard and its first screen have. Python's own number is 700."""
NEW_OBJECTS = 50_000
"""New objects after which it looks for garbage from then on."""
LARGE_BLOCK = 128 << 10
"""Bytes from which on a block of memory is the system's own, and at the end of the heap given back.
glibc begins with this number, too."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Options in glibc's malloc.h."""
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


def keep_heap_small() -> None:
    """Have the C library (glibc) give memory back to the system, before threads start.

    By itself it has a heap for each thread, and takes ever larger blocks from them once such a one
    was freed. What is read and drawn comes and goes between objects that stay, so that the heaps of
    a run of hours would be holes for the most part.
    """
    import ctypes  # takes a while, and no other command needs it

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option and sys.platform == "linux":
        set_option(_M_ARENA_MAX, 1)
        set_option(_M_MMAP_THRESHOLD, LARGE_BLOCK)
        set_option(_M_TRIM_THRESHOLD, LARGE_BLOCK)
