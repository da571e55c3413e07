"""A run as HTML, for notebooks. All texts are escaped: some come from hosts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rankboard.outcome import Outcome
from rankboard.progress import RankProgress

UNKNOWN = "–"
HEAD = ("rank", "host", "phase", "step", "loss", "seconds per step")


def draw_run(
    name: str,
    state: str,
    ranks: Sequence[RankProgress],
    alerts: Sequence[str],
    outcome: Outcome | None,
) -> str:
    """Draw a run: its state, a table with a row for each rank, and what is wrong."""
    rows = [_list_cells(rank) for rank in ranks]
    notes = [*alerts]
    if outcome:
        notes += [outcome.cause.text] if outcome.cause else []
        notes += outcome.flaws
    lines = [
        "<div>",
        f"<b>{escape(name)}</b>: {escape(state)}",
        draw_table(HEAD, rows),
        *(f"<div>{escape(note)}</div>" for note in notes),
        "</div>",
    ]
    return "\n".join(lines)


def draw_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Draw a table of plain texts."""
    lines = ["<table>", _draw_row("th", head), *(_draw_row("td", row) for row in rows), "</table>"]
    return "\n".join(lines)


def _draw_row(tag: str, texts: Sequence[str]) -> str:
    cells = "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
    return f"<tr>{cells}</tr>"


def _list_cells(rank: RankProgress) -> tuple[str, ...]:
    return (
        str(rank.rank),
        rank.host,
        rank.phase,
        str(rank.step) if rank.step else UNKNOWN,
        format_number(rank.loss),
        format_number(rank.step_seconds),
    )


def format_number(value: float | None) -> str:
    """Format a number with four digits."""
    return UNKNOWN if value is None else f"{value:.4g}"
