"""The settings of the interpreter."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

HELD_BY_SMALL_ONES = """
import os
import threading
from tui.kit.interpreter import keep_heap_small

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def fill():
    for _ in range(200):
        large.append(b"x" * 200_000)
        staying.append(b"x" * 2_000)

large, staying = [b"x" * 200_000], []
keep_heap_small()
large.clear()
for _ in range(2):
    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
before = resident()
large.clear()
print(before - resident())
"""
"""Frees large blocks of memory between small ones that stay; prints how many MiB are given back."""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_memory_between_what_stays_is_given_back() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", HELD_BY_SMALL_ONES], capture_output=True, text=True, check=True
    )
    assert float(printed.stdout) > 50
