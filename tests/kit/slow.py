"""The mark of tests that train on several real hosts and whose parts other tests cover: left out
unless asked for."""

from __future__ import annotations

import os

import pytest

SLOW = "RANKBOARD_SLOW"
slow = pytest.mark.skipif(not os.environ.get(SLOW), reason=f"slow: run it with {SLOW}=1 make test")
