"""The table of all faults, printed at the end of the test run.

It is a plugin of all tests: a hook that comes with the collection of these tests would be unknown
to the process that prints, where several work.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import pytest

PROPERTY = "fault"
HEAD = ("fault", "verdict", "cause named", "seconds", "left over", "lost")


@dataclass(frozen=True)
class Row:
    """How one fault ended. `seconds` from the fault to the end; `left` processes; `lost` records,
    or twice there."""

    fault: str
    verdict: str
    cause: str
    seconds: str
    left: int
    lost: int


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, if any of these tests have run."""
    rows = [HEAD]
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                rows += [tuple(value) for name, value in report.user_properties if name == PROPERTY]
    if len(rows) == 1:
        return
    terminalreporter.section("faults")
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        terminalreporter.write_line(
            " | ".join(
                str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)
            ).rstrip()
        )


def cells(row: Row) -> tuple[str | int, ...]:
    """The row as it travels from the process of the test to the one that prints."""
    return astuple(row)
