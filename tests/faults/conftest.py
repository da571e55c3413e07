"""The stage of each fault: three real hosts, and nothing left on them whatever the test did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.proof import Stage
from tests.kit.sshd import Sshd


@pytest.fixture
def stage(
    sshd: Sshd, tmp_path: Path, record_property: Callable[[str, object], None]
) -> Iterator[Stage]:
    """Three hosts over real SSH."""
    stage = Stage(sshd, tmp_path, record_property)
    yield stage
    stage.close()
