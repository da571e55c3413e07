"""Runs beside each other as text, Markdown and JSON: what differs, and what they came to."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from remote.format import count, duration, listed, number
from remote.metrics import doubt as doubting
from remote.metrics.compare import ComparedRun
from remote.metrics.run import RunFigures
from remote.metrics.settings import differing, settings
from remote.record import marks
from remote.record.summary import to_strict_json
from remote.sanitise import one_line
from tui.compare.facts import list_facts, read_results
from tui.compare.headline import make_headline
from tui.compare.verdict_text import format_verdicts
from tui.kit.narrate import echo
from tui.kit.palette import RUN_LETTERS
from tui.kit.text_table import Row, print_table, terminal_width

DISPENSABLE_COLUMNS = (
    "total time",
    "training time",
    "sent per step",
    "test loss",
    "samples/s",
    "sync share",
)
"""Columns that a narrow terminal leaves out, in this order."""
MAX_SETTING_LENGTH = 30
"""Characters of a setting that the terminal shows. Markdown and JSON have all."""
CAPTIONS = (
    "training loss: mean over ranks of the last 20 steps, or of the newest loss that each prints; "
    "test accuracy: of the last test",
    "time per step, samples/s: means of all steps but the first, which warms up; "
    "the interval is that of this one run",
    "sync share, sent per step: of the same steps, the time that a rank waits for others, and the "
    "bytes that it sends",
)
REPORTED_LOSS = "reported loss"
"""The metric "loss": the last value that a script prints or writes."""
REPEAT_HINT = "To see what a setting changes, repeat the runs in a study."


class TitledTable(NamedTuple):
    """A table under a title."""

    title: str
    head: Row
    rows: list[Row]


# JSON


def to_object(compared: Sequence[ComparedRun]) -> dict[str, Any]:
    """Return the comparison as one object for JSON. Numbers that are not finite are null."""
    different = differing([run.run for run in compared])
    metrics = common_metrics(compared)
    comparison: dict[str, Any] = to_strict_json(
        {
            "differing": {name: list(values) for name, values in different.items()},
            "runs": [_run_object(run, metrics) for run in compared],
        }
    )
    return comparison


def _run_object(compared: ComparedRun, metrics: Sequence[str]) -> dict[str, Any]:
    run = compared.run
    return {
        "run": run.name,
        "folder": str(run.folder),
        "verdict": run.verdict.word if run.verdict else None,
        "remarks": list(describe_problems(run)),
        "settings": settings(run),
        **read_results(compared),
        "step_seconds_interval": _finite_bounds(compared.seconds.low, compared.seconds.high),
        "against_first": _against_first(compared),
        "common_accuracy": compared.goal,
        "seconds_to_common_accuracy": compared.seconds_to_goal,
        "common_steps": compared.common_steps,
        "loss_difference": compared.loss_difference,
        "metrics": {name: _script_metrics(run)[name] for name in metrics},
    }


def _against_first(compared: ComparedRun) -> dict[str, Any] | None:
    against = compared.against
    if against is None:
        return None
    doubts = [compared.doubt] if compared.doubt else []
    return {
        "finding": against.finding.value,
        "of": "seconds per sample" if compared.is_per_sample else "seconds per step",
        "ratio": against.ratio.value,
        "interval": _finite_bounds(against.ratio.low, against.ratio.high),
        "p": against.p,
        "same_settings": compared.is_repetition,
        "run_to_run": compared.noise.share,
        "run_to_run_freedom": compared.noise.freedom,
        "doubt": doubting.objects(doubts)[0] if doubts else None,
    }


def _finite_bounds(low: float, high: float) -> list[float] | None:
    # JSON has no infinity, which a bound is if there are too few steps.
    return [low, high] if math.isfinite(low) and math.isfinite(high) else None


def _script_metrics(run: RunFigures) -> dict[str, dict[str, Any]]:
    """Return the metrics that a script reported, by name."""
    metrics: dict[str, dict[str, Any]] = run.summary.get("metrics", {})
    return metrics


def common_metrics(compared: Sequence[ComparedRun]) -> list[str]:
    """Return the metrics that all runs have, in the order of the first one."""
    metrics_of_runs = [_script_metrics(run.run) for run in compared]
    first_metrics = metrics_of_runs[0]
    return [name for name in first_metrics if all(name in metrics for metrics in metrics_of_runs)]


# Text and Markdown


def print_comparison(compared: Sequence[ComparedRun], charts: Mapping[str, Sequence[str]]) -> None:
    """Print the comparison for a terminal, with charts by their titles."""
    for line in _introduction(compared):
        _print_folded(line)
    for table in _tables(compared):
        echo(f"\n{table.title}")
        rows = [tuple(shorten_setting(cell) for cell in row) for row in table.rows]
        print_table(table.head, rows, DISPENSABLE_COLUMNS)
    for title, lines in charts.items():
        echo("\n".join(("", title, *lines)))
    echo("")
    headline = _headline(compared)
    for line in (headline, *format_verdicts(compared), *_notes(compared)):
        _print_folded(line)


def _print_folded(text: str) -> None:
    """Print a line, folded between words if the terminal is narrower."""
    line = one_line(text)
    width = terminal_width()
    if len(line) > width:
        # The width is finite here: without a terminal it is infinite, and no line is longer.
        line = "\n".join(textwrap.wrap(line, int(width), subsequent_indent="   "))
    echo(line)


def to_markdown(compared: Sequence[ComparedRun], charts: Mapping[str, Sequence[str]]) -> str:
    """Return the comparison as Markdown, such as GitHub shows."""
    blocks = ["# Comparison of runs"]
    blocks.append(_markdown_list(_introduction(compared)))
    blocks.append(_markdown_list([_headline(compared), *format_verdicts(compared)]))
    for table in _tables(compared):
        rule = ("---",) * len(table.head)
        table_lines = []
        for row in (table.head, rule, *table.rows):
            cells = " | ".join(_escape_markdown(cell) for cell in row)
            table_lines.append(f"| {cells} |")
        blocks.append(f"## {table.title.capitalize()}\n\n" + "\n".join(table_lines))
    for title, lines in charts.items():
        blocks.append("\n".join((f"## {title.capitalize()}", "", "```text", *lines, "```")))
    # Two spaces at its end make a line break.
    blocks.append("\n".join(f"{_escape_markdown(line)}  " for line in _notes(compared)))
    return "\n\n".join(blocks) + "\n"


def _markdown_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_escape_markdown(line)}" for line in lines)


def _escape_markdown(text: str) -> str:
    """Escape what Markdown obeys: names of hosts and runs may hold any character."""
    text = one_line(text)
    # The backslash is the first of them, since all later backslashes are ours.
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return text


def shorten_setting(text: str, max_length: int = MAX_SETTING_LENGTH) -> str:
    """Return a text with an ellipsis at its end if it is longer."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


# Lines


def _introduction(compared: Sequence[ComparedRun]) -> list[str]:
    """Return what is to be known before the tables: the runs, doubts, and problems."""
    runs = []
    for letter, run in zip(RUN_LETTERS, compared, strict=False):
        given_name = marks.name(run.run.folder)
        name = f"{given_name} ({run.run.name})" if given_name else run.run.name
        runs.append(f"{letter}  {name}: {describe_outcome(run.run)}")
    return [*runs, *describe_doubts(compared), *_problems(compared)]


def describe_outcome(run: RunFigures) -> str:
    """Return what a run was, and how it ended."""
    ranks = count(run.world_size, "rank")
    hosts = count(run.nodes, "host")
    flaws = f", but {listed([flaw.kind for flaw in run.flaws])}" if run.flaws else ""
    end = f"{run.state} after {duration(run.elapsed)}{flaws}"
    return f"{ranks} on {hosts}, {run.description}; {end}"


def describe_problems(run: RunFigures) -> Iterator[str]:
    """Yield what somebody has to know of a run before its results."""
    for flaw in run.flaws:
        yield flaw.text
    if run.cause:
        yield run.cause
    for remark in run.remarks:
        yield remark.text
    if run.start_load:
        yield run.start_load


def _headline(compared: Sequence[ComparedRun]) -> str:
    """Return which run is better, and what is to be said against that, in plain words."""
    names = [marks.name(run.run.folder) or run.run.name for run in compared]
    headline = make_headline(compared, names)
    return "; ".join(filter(None, (headline.title, headline.caveat)))


def _problems(compared: Sequence[ComparedRun]) -> list[str]:
    """Return the problems of all runs, each once, with the letters of its runs."""
    letters_of_text: dict[str, list[str]] = {}
    for letter, run in zip(RUN_LETTERS, compared, strict=False):
        for text in describe_problems(run.run):
            letters_of_text.setdefault(text, []).append(letter)
    return [f"{', '.join(letters)}: {text}" for text, letters in letters_of_text.items()]


def describe_doubts(compared: Sequence[ComparedRun]) -> list[str]:
    """Return why comparisons of times show nothing, in words that name the runs' letters."""
    letters = {}
    for letter, run in zip(RUN_LETTERS, compared, strict=False):
        letters[run.run.name] = letter
    doubts = [run.doubt for run in compared if run.doubt]
    return doubting.sentences(doubts, letters)


def _notes(compared: Sequence[ComparedRun]) -> list[str]:
    """Return what the numbers are, and what the verdicts rest on."""
    if not any(len(run.run.steps) for run in compared):
        return []
    has_verdict = any(run.against for run in compared)
    return [*CAPTIONS, REPEAT_HINT] if has_verdict else list(CAPTIONS)


# Tables


def _tables(compared: Sequence[ComparedRun]) -> Iterator[TitledTable]:
    head, *rows = settings_table(compared)
    if rows:
        yield TitledTable("settings that differ", head, rows)
    head, *rows = results_table(compared)
    yield TitledTable("final figures", head, rows)
    head, *rows = metrics_table(compared)
    if rows:
        yield TitledTable("metrics of all runs: the last value, least to most", head, rows)


def settings_table(compared: Sequence[ComparedRun]) -> list[Row]:
    """Return the settings that differ, one per row below the head."""
    different = differing([run.run for run in compared])
    head = ("setting", *RUN_LETTERS[: len(compared)])
    return [head, *((name, *values) for name, values in different.items())]


def results_table(compared: Sequence[ComparedRun]) -> list[Row]:
    """Return the final results, one run per row below the head."""
    facts = list(list_facts(compared))
    head = ("run", *(fact.label for fact in facts))
    rows = []
    for place in range(len(compared)):
        rows.append((RUN_LETTERS[place], *(fact.values[place] for fact in facts)))
    return [head, *rows]


def metrics_table(compared: Sequence[ComparedRun]) -> list[Row]:
    """Return the metrics that all runs have, one per row below the head."""
    table: list[Row] = [("metric", *RUN_LETTERS[: len(compared)])]
    for name in common_metrics(compared):
        metrics = [_script_metrics(run.run)[name] for run in compared]
        values = [_format_metric(metric) for metric in metrics]
        # Each is of the rank that told it first, which need not be the same one.
        if len({metric["rank"] for metric in metrics}) > 1:
            values = [
                f"{value} (rank {metric['rank']})"
                for value, metric in zip(values, metrics, strict=True)
            ]
        # One value of one rank, while the training loss is a mean: two names for two figures.
        table.append((REPORTED_LOSS if name == "loss" else name, *values))
    return table


def _format_metric(metric: Mapping[str, Any]) -> str:
    last = _format_number(metric["last"])
    least = _format_number(metric["least"])
    most = _format_number(metric["most"])
    return f"{last}, {least} to {most}"


def _format_number(value: float | None) -> str:
    return number(math.nan if value is None else value)
