"""`rankboard parse`: what is read of a log."""

from __future__ import annotations

import json as encoding
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, TextIO

from cyclopts import Parameter

from remote.cluster.rules import own_rules
from remote.format import count
from remote.formats import Kind, Rule
from remote.formats.account import Account, texts
from remote.formats.files import is_of_numbers
from remote.record.find import find
from remote.record.layout import LOGS, PLAN
from remote.record.log_files import texts_of
from remote.sanitise import one_line
from tui.flags.common import RUNS, HostsFile, RunsDir
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo
from tui.kit.text_table import print_table
from tui.parse.readings import as_json, finite, told

SHOWN = 10
"""Kinds of lines that are not read."""
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
        rules = (*_typed(rule), *own_rules(hosts))
        logs = [log for file in files for log in _logs(file, runs_dir)]
        for number, (name, log) in enumerate(logs):
            account = _read(name, log, rules)
            if json:
                echo(encoding.dumps(_data(name, account)))
                continue
            if number:
                echo()
            _show(name, account)


def _typed(lines: Sequence[str]) -> Iterator[Rule]:
    for rule in map(Rule, lines):
        try:
            rule.check()
        except ValueError as error:
            raise UsageError(f"--rule {rule.line!r}: {error}") from None
        yield rule


def _logs(name: str, runs_dir: Path) -> Iterator[tuple[str, Path | None]]:
    """The logs that a word names, with what to call them. None is the standard input."""
    if name == STDIN:
        yield "the standard input", None
        return
    path = Path(name)
    if not path.is_dir():
        found = None if path.exists() else find(name, runs_dir)
        if found is None:
            yield name, path
            return
        path = found
    logs = sorted((path / LOGS).glob("rank-*.log"), key=lambda log: (len(log.name), log.name))
    if not logs and (path / PLAN).exists():
        raise UsageError(f"{path.name}: its ranks have printed nothing")
    if not logs:
        raise UsageError(f"{path}: this folder has no {LOGS}/rank-*.log: name the log files")
    for log in logs:  # the folder may be somebody else's work
        if log.is_symlink() or not log.is_file():
            raise UsageError(
                f"{log}: is a link, or no file: name the log files that are to be read"
            )
    yield from ((str(log), log) for log in logs)


def _read(name: str, log: Path | None, rules: tuple[Rule, ...]) -> Account:
    account = Account(rules, log.name if log else "")
    try:
        if log and is_of_numbers(log.name):
            for text in texts_of(log):
                account.feed(text)
            return account
        with (
            nullcontext(_stdin())
            if log is None
            else log.open(encoding="utf-8", errors="replace", newline="") as file
        ):
            for text in texts(file):
                account.feed(text)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    return account


def _stdin() -> TextIO:
    sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="")  # type: ignore[union-attr]
    return sys.stdin


def _show(name: str, account: Account) -> None:
    lines = count(account.lines, "line")
    if not account.format:
        echo(f"{name}: rankboard reads nothing from {lines}")
    else:
        echo(f"{name}: read as {account.format}, {lines}")
        kinds = account.kinds
        echo(
            f"  {count(kinds[Kind.STEP], 'step')}, {count(kinds[Kind.EVALUATION], 'evaluation')}, "
            f"{count(kinds[Kind.OTHER], 'reading')} of other values"
        )
        also = [f"{one} ({number:,})" for one, number in account.formats.items()]
        if len(also) > 1:
            echo(f"  formats: {', '.join(also)}")
        if account.ranks:
            echo(f"  ranks by the prefixes: {len(account.ranks)}")
        for what, found in (("first", account.first), ("last", account.last)):
            if found:
                echo(f"  {what}: {told(found[1])}")
        echo()
        rows = [
            (each, f"{one.count:,}", *(f"{value:.5g}" for value in _figures(one)))
            for each, one in account.series.items()
        ]
        print_table(("series", "values", "first", "last", "least", "most"), rows)
    _show_unread(account)


def _figures(one: Any) -> tuple[float, float, float, float]:
    return one.first, one.last, one.least, one.most


def _show_unread(account: Account) -> None:
    whole = account.unread.total()
    if not whole:
        return
    echo(f"\n{count(whole, 'line')} with numbers not read, by kind:")
    for shape, number in account.unread.most_common(SHOWN):
        echo(f"  {number:>7,}  {one_line(account.examples[shape])[:160]}")
    if len(account.unread) > SHOWN:
        echo(f"           and {len(account.unread) - SHOWN:,} kinds more")
    if not account.format:
        echo(
            "If one of these lines reports steps, write a rule for it, such as --rule "
            "'round {step}: cost {loss}'"
        )


def _data(name: str, account: Account) -> dict[str, Any]:
    first = account.first
    last = account.last
    return {
        "file": name,
        "format": account.format,
        "formats": dict(account.formats),
        "lines": account.lines,
        "steps": account.kinds[Kind.STEP],
        "evaluations": account.kinds[Kind.EVALUATION],
        "ranks": sorted(account.ranks),
        "first": first and {"line": first[0].strip(), **as_json(first[1])},
        "last": last and {"line": last[0].strip(), **as_json(last[1])},
        "series": {each: finite(vars(one)) for each, one in account.series.items()},
        "unread": account.unread.total(),
        "unread_kinds": [
            {"lines": number, "example": account.examples[shape]}
            for shape, number in account.unread.most_common(SHOWN)
        ],
    }
