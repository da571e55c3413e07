"""Logs of real programs, shortened: of issue trackers, READMEs and courses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomllib

from remote.formats.catalog import Sample
from remote.formats.reader import LogReader
from tests.formats.test_samples import assert_same

LOGS: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "real_logs.toml").read_text(encoding="utf-8")
)["log"]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["from"])
def test_a_real_log_is_read(log: dict[str, Any]) -> None:
    readings = LogReader().read(log["text"])
    expected = Sample(text=log["text"], readings=log["readings"]).expected()
    assert len(readings) == len(expected), readings
    for reading, wanted in zip(readings, expected, strict=True):
        assert_same(reading, wanted)


def test_most_of_them_are_read() -> None:
    """What stays unread has no name for its loss, or nobody could tell it from other lines."""
    unread = [log["from"] for log in LOGS if not log["readings"]]
    assert len(unread) < 0.15 * len(LOGS)
