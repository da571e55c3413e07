from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def stats() -> ModuleType:
    """scipy.stats. It takes a second to import, so workers without a test of statistics do not."""
    from scipy import stats

    return stats
