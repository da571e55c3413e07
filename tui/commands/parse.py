"""`rankboard parse`: show what is read of a log."""

from __future__ import annotations

# `json` is a flag of the command.
import json as encoding
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from remote.cluster.rules import own_rules
from remote.format import count
from remote.formats.files import is_of_numbers
from remote.formats.parse_report import ParseReport, split_texts
from remote.formats.reading import Reading, ReadingKind
from remote.formats.rules import Rule
from remote.record.find import find
from remote.record.layout import LOGS, PLAN
from remote.record.log_files import file_texts
from remote.sanitise import one_line
from tui.flags.common import RUNS, HostsFile, RunsDir
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo
from tui.kit.text_table import print_table
from tui.parse.readings import describe_reading, finite_values, reading_json

MAX_KINDS = 10
"""Kinds of lines that are not read, of which an example is shown."""
STDIN = "-"


def parse(
    files: Annotated[
        list[str],
        Parameter(
            name="FILE...",
            allow_leading_hyphen=True,  # - alone is the standard input
            help="log files; - for the standard input; a run, or its folder, for the logs of its "
            "ranks",
        ),
    ],
    /,
    *,
    rule: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="REGEX",
            help="read lines like this one first, such as 'round {step}: cost {loss}' (repeatable)",
        ),
    ] = (),
    json: Annotated[bool, Parameter(help="print one JSON object per file")] = False,
    hosts: HostsFile = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Show what rankboard reads from log files: the format, the values, and the lines that it does
    not read.

    Tables, JSON and event files of TensorBoard, known by their names, are read as by --follow.
    Rules of your own come first: those of --rule, then the [[format]] tables of rankboard.toml
    and of the hosts file.

    Examples:
      rankboard parse train.log
      rankboard parse last
      rankboard parse slurm-123.out --rule 'round {step}: cost {loss}'
    """
    with refusing():
        rules = (*_checked_rules(rule), *own_rules(hosts))
        named_logs = [log_path for file in files for log_path in _find_logs(file, runs_dir)]
        for log_number, (log_name, log_path) in enumerate(named_logs):
            report = _read(log_name, log_path, rules)
            if json:
                echo(encoding.dumps(_report_json(log_name, report)))
                continue
            if log_number:
                echo()
            _show(log_name, report)


def _checked_rules(lines: Sequence[str]) -> Iterator[Rule]:
    for line in lines:
        rule = Rule(line)
        try:
            rule.check()
        except ValueError as error:
            raise UsageError(f"--rule {line!r}: {error}") from None
        yield rule


def _find_logs(name: str, runs_dir: Path) -> list[tuple[str, Path | None]]:
    """Return the logs that an argument names, with their names. None is the standard input."""
    if name == STDIN:
        return [("the standard input", None)]
    path = Path(name)
    run_folder = path if path.exists() else find(name, runs_dir)
    if run_folder is None or not run_folder.is_dir():
        return [(name, path)]
    return [(str(log_path), log_path) for log_path in _rank_logs(run_folder)]


def _rank_logs(folder: Path) -> list[Path]:
    """Return the logs of the ranks of a run. Raises: UsageError."""
    # By length first, so that rank 10 comes after rank 9.
    log_paths = sorted(
        (folder / LOGS).glob("rank-*.log"), key=lambda log_path: (len(log_path.name), log_path.name)
    )
    if not log_paths and (folder / PLAN).exists():
        raise UsageError(f"{folder.name}: its ranks have printed nothing")
    if not log_paths:
        raise UsageError(f"{folder}: this folder has no {LOGS}/rank-*.log: name the log files")
    for log_path in log_paths:  # the folder may be somebody else's work
        if log_path.is_symlink() or not log_path.is_file():
            raise UsageError(
                f"{log_path}: is a link, or no file: name the log files that are to be read"
            )
    return log_paths


def _read(name: str, log: Path | None, rules: tuple[Rule, ...]) -> ParseReport:
    report = ParseReport(rules, log.name if log else "")
    try:
        for text in _read_texts(log):
            report.feed(text)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    return report


def _read_texts(log: Path | None) -> Iterator[str]:
    """Yield the texts of a log. Raises: OSError."""
    if log is None:
        sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="")  # type: ignore[union-attr]
        yield from split_texts(sys.stdin)
    elif is_of_numbers(log.name):
        yield from file_texts(log)
    else:
        # As an agent sends it: translated newlines would make many lines of a progress bar.
        with log.open(encoding="utf-8", errors="replace", newline="") as file:
            yield from split_texts(file)


def _show(name: str, report: ParseReport) -> None:
    lines_text = count(report.lines, "line")
    if report.format:
        echo(f"{name}: read as {report.format}, {lines_text}")
        _show_readings(report)
        _show_series(report)
    else:
        echo(f"{name}: rankboard reads nothing from {lines_text}")
    _show_unread(report)


def _show_readings(report: ParseReport) -> None:
    steps = count(report.kinds[ReadingKind.STEP], "step")
    evaluations = count(report.kinds[ReadingKind.EVALUATION], "evaluation")
    other_readings = count(report.kinds[ReadingKind.OTHER], "reading")
    echo(f"  {steps}, {evaluations}, {other_readings} of other values")
    if len(report.formats) > 1:
        formats = [
            f"{format_name} ({readings:,})" for format_name, readings in report.formats.items()
        ]
        echo(f"  formats: {', '.join(formats)}")
    if report.ranks:
        echo(f"  ranks by the prefixes: {len(report.ranks)}")
    if report.first:
        echo(f"  first: {describe_reading(report.first[1])}")
    if report.last:
        echo(f"  last: {describe_reading(report.last[1])}")


def _show_series(report: ParseReport) -> None:
    echo()
    series_rows = []
    for series_name, series in report.series.items():
        bounds = (series.first, series.last, series.least, series.most)
        series_rows.append(
            (series_name, f"{series.count:,}", *(f"{bound:.5g}" for bound in bounds))
        )
    print_table(("series", "values", "first", "last", "least", "most"), series_rows)


def _show_unread(report: ParseReport) -> None:
    num_unread = report.unread.total()
    if not num_unread:
        return
    echo(f"\n{count(num_unread, 'line')} with numbers not read, by kind:")
    for shape, lines_of_kind in report.unread.most_common(MAX_KINDS):
        echo(f"  {lines_of_kind:>7,}  {one_line(report.examples[shape])[:160]}")
    if len(report.unread) > MAX_KINDS:
        echo(f"           and {len(report.unread) - MAX_KINDS:,} kinds more")
    if not report.format:
        echo(
            "If one of these lines reports steps, write a rule for it, such as --rule "
            "'round {step}: cost {loss}'"
        )


def _report_json(name: str, report: ParseReport) -> dict[str, Any]:
    unread_kinds = [
        {"lines": lines, "example": report.examples[shape]}
        for shape, lines in report.unread.most_common(MAX_KINDS)
    ]
    series_objects = {
        # JSON has no NaN.
        series_name: finite_values(vars(series_values))
        for series_name, series_values in report.series.items()
    }
    return {
        "file": name,
        "format": report.format,
        "formats": dict(report.formats),
        "lines": report.lines,
        "steps": report.kinds[ReadingKind.STEP],
        "evaluations": report.kinds[ReadingKind.EVALUATION],
        "ranks": sorted(report.ranks),
        "first": _line_json(report.first),
        "last": _line_json(report.last),
        "series": series_objects,
        "unread": report.unread.total(),
        "unread_kinds": unread_kinds,
    }


def _line_json(line_reading: tuple[str, Reading] | None) -> dict[str, Any] | None:
    if line_reading is None:
        return None
    log_line, reading = line_reading
    return {"line": log_line.strip(), **reading_json(reading)}
