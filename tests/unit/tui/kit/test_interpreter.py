"""The settings of the interpreter."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

FRAGMENTED = """
import os
from tui.kit.interpreter import return_free_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

blocks = [bytes(2000) for _ in range(40_000)]
staying = blocks[::50]
del blocks
before = resident()
return_free_memory()
print(before - resident())
"""
"""Leaves small pieces within a heap that is free otherwise, and prints the MiB given back."""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_memory_between_what_stays_is_given_back() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True
    )
    assert float(printed.stdout) > 40
