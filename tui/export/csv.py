"""A folder with one CSV file per table, and `run.json` with settings and summary."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from remote.metrics.run import RunFigures
from tui.export.tables import about, tables


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError."""
    target.mkdir()
    for name, table in tables(run).items():
        with (target / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(table)
            rows = zip(*table.values(), strict=True)
            lines.writerows([_cell(value) for value in row] for row in rows)
    (target / "run.json").write_text(json.dumps(about(run), indent=2) + "\n", encoding="utf-8")


def _cell(value: Any) -> Any:
    """The value; whole numbers without decimals, all others so that they are read back as they
    are."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else value
