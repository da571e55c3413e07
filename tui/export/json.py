"""Writes one JSON file with settings, summary and all tables, each as columns.

The JSON is strict: a number that is not finite is null.
"""

from __future__ import annotations

import json
from pathlib import Path

from remote.metrics.run import RunFigures
from remote.record.summary import to_strict_json
from tui.export.tables import make_tables, summarise


def write(run: RunFigures, target: Path) -> None:
    """Write the file. Raises: OSError."""
    content = summarise(run) | {"tables": to_strict_json(make_tables(run))}
    target.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
