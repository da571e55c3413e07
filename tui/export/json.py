"""One JSON file with settings, summary and all tables, each as columns. The JSON is strict: a
number that is not finite is null."""

from __future__ import annotations

import json
from pathlib import Path

from remote.metrics.run import RunFigures
from remote.record.summary import finite
from tui.export.tables import about, tables


def write(run: RunFigures, target: Path) -> None:
    """Write the file. Raises: OSError."""
    whole = about(run) | {"tables": finite(tables(run))}
    target.write_text(json.dumps(whole, allow_nan=False) + "\n", encoding="utf-8")
