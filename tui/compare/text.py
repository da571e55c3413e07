"""Runs beside each other as text: what differs, what they came to, and which one is faster."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from remote.format import UNKNOWN, count, duration, fixed, number, percent, rate, seconds, size
from remote.metrics import doubt as doubting
from remote.metrics.compare import ComparedRun, RunNoise
from remote.metrics.run import RunFigures
from remote.metrics.settings import differing, settings
from remote.record.summary import finite
from remote.sanitise import one_line
from remote.statistics.comparison import Finding
from training import figures
from tui.kit.narrate import echo
from tui.kit.palette import RUN_LETTERS
from tui.kit.text_table import Row, print_table, terminal_width

HEAD = (
    *("run", "loss", "test loss", "accuracy", "s/iter", "95% interval", "samples/s"),
    *("sync share", "sent/iter", "training", "total"),
)
DISPENSABLE = {
    "total": 1,
    "training": 2,
    "sent/iter": 3,
    "test loss": 4,
    "samples/s": 5,
    "sync share": 6,
}
"""Columns that a narrow terminal leaves out, in this order."""
LONGEST = 30
"""Characters of a setting that the terminal shows; Markdown and JSON have all."""
CAPTIONS = (
    "loss: training loss of the last step, mean over ranks; accuracy: of the last test",
    "s/iter, samples/s: means of all iterations but the first, which warms up; "
    "the interval is that of this one run",
    "sync share, sent/iter: of the same iterations, the time that a rank waits for others, and the "
    "bytes that it sends",
)
FEW = 4
"""Below so many degrees of freedom, it is mostly their number that makes intervals wide."""
VAGUE = 10.0
"""A ratio that may be so large is not known."""
REPEAT = "To see what a setting changes, repeat the runs in a study."


def objects(compared: Sequence[ComparedRun]) -> dict[str, Any]:
    """The comparison as one JSON-ready object. The JSON is strict: a number that is not finite is
    null."""
    different = differing([one.run for one in compared])
    whole: dict[str, Any] = finite(
        {
            "differing": {name: list(values) for name, values in different.items()},
            "runs": [_object(one, common_metrics(compared)) for one in compared],
        }
    )
    return whole


def _object(one: ComparedRun, common: Sequence[str]) -> dict[str, Any]:
    run = one.run
    against = one.against
    return {
        "run": run.name,
        "folder": str(run.folder),
        "verdict": run.verdict.word if run.verdict else None,
        "remarks": list(remarks(run)),
        "settings": settings(run),
        **_figures(one),
        "step_seconds_interval": _bounds(one.seconds.low, one.seconds.high),
        "against_first": {
            "finding": against.finding.value,
            "of": "seconds per sample" if one.is_per_sample else "seconds per step",
            "ratio": against.ratio.value,
            "interval": _bounds(against.ratio.low, against.ratio.high),
            "p": against.p,
            "same_settings": one.is_repetition,
            "run_to_run": one.noise.share,
            "run_to_run_freedom": one.noise.freedom,
            "doubt": doubting.objects([one.doubt])[0] if one.doubt else None,
        }
        if against
        else None,
        "common_accuracy": one.goal,
        "seconds_to_common_accuracy": one.seconds_to_goal,
        "common_steps": one.common_steps,
        "loss_difference": one.loss_difference,
        "metrics": {name: _metrics(run)[name] for name in common},
    }


def _metrics(run: RunFigures) -> dict[str, dict[str, Any]]:
    """The metrics that a user's own program told, by name."""
    found: dict[str, dict[str, Any]] = run.summary.get("metrics", {})
    return found


def common_metrics(compared: Sequence[ComparedRun]) -> list[str]:
    """The metrics that all runs have, in the order of the first one."""
    others = [_metrics(one.run) for one in compared]
    return [name for name in others[0] if all(name in other for other in others)]


def _bounds(low: float, high: float) -> list[float] | None:
    return [low, high] if math.isfinite(low) and math.isfinite(high) else None


def _figures(one: ComparedRun) -> dict[str, Any]:
    run = one.run
    steps = one.steps
    taken = steps.mean("seconds")
    sync = steps.mean("sync")
    if not run.job:  # a script may not tell it
        sync = sync or math.nan
    last = run.evaluations[-1] if run.evaluations else None
    return {
        "steps": len(run.steps.by_rank(run.steps.ranks[0])) if len(run.steps) else 0,
        "loss": run.final_loss() if len(run.steps) else None,
        "test_loss": last.loss if last else None,
        "test_accuracy": last.accuracy if last else None,
        "step_seconds": taken,
        "samples_per_second": steps.samples_per_second() or math.nan,
        "sync_share": sync / taken if taken > 0 else math.nan,
        "bytes_per_step": steps.mean("bytes_sent"),
        "training_seconds": run.summary["training_seconds"],
        "elapsed": run.elapsed,
    }


# As text ------------------------------------------------------------------------------------------


def print_plain(compared: Sequence[ComparedRun], charts: Mapping[str, Sequence[str]]) -> None:
    """Print the comparison for a terminal, with charts by their titles."""
    for line in (*_legend(compared), *doubted(compared), *_told(compared)):
        _print_folded(line)
    for title, head, rows in _tables(compared):
        echo(f"\n{title}")
        print_table(head, [tuple(map(_short, row)) for row in rows], DISPENSABLE)
    for title, lines in charts.items():
        echo("\n".join(("", title, *lines)))
    echo("")
    for line in (*verdicts(compared), *_notes(compared)):
        _print_folded(line)


def _print_folded(text: str) -> None:
    """Print a line, in a terminal folded between words."""
    line = one_line(text)
    width = terminal_width()
    if len(line) > width:
        line = "\n".join(textwrap.wrap(line, int(width), subsequent_indent="   "))
    echo(line)


def markdown(compared: Sequence[ComparedRun], charts: Mapping[str, Sequence[str]]) -> str:
    """The comparison as Markdown, such as GitHub shows."""
    said = [*_legend(compared), *doubted(compared), *_told(compared)]
    blocks = ["# Comparison of runs", _items(said)]
    blocks.append(_items(verdicts(compared)))
    for title, head, rows in _tables(compared):
        rule = ["---"] * len(head)
        table = "\n".join(f"| {' | '.join(map(_escaped, row))} |" for row in (head, rule, *rows))
        blocks.append(f"## {title.capitalize()}\n\n{table}")
    for title, lines in charts.items():
        blocks.append("\n".join((f"## {title.capitalize()}", "", "```text", *lines, "```")))
    blocks.append("\n".join(_escaped(line) + "  " for line in _notes(compared)))
    return "\n\n".join(blocks) + "\n"


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in lines)


def _escaped(text: str) -> str:
    """The text as Markdown shows it: names of hosts and runs may hold any character."""
    text = one_line(text)
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return text


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"


def _legend(compared: Sequence[ComparedRun]) -> list[str]:
    """One line per run: its letter, its name, what it was and what became of it."""
    return [
        f"{letter}  {one.run.name}: {became(one.run)}"
        for letter, one in zip(RUN_LETTERS, compared, strict=False)
    ]


def became(run: RunFigures) -> str:
    """What a run was, and what became of it."""
    ranks = count(run.world_size, "rank")
    hosts = count(run.nodes, "host")
    verdict = run.verdict.word if run.verdict else "not ended"
    return f"{ranks} on {hosts}, {run.description}; {verdict} after {duration(run.elapsed)}"


def remarks(run: RunFigures) -> Iterator[str]:
    """What somebody has to know of a run before its figures."""
    texts = [remark.text for remark in run.remarks]
    yield from filter(None, (run.diverged, run.cause, *texts))


def doubted(compared: Sequence[ComparedRun]) -> list[str]:
    """Why comparisons of times show nothing, in words that call the runs by their letters."""
    letters = {one.run.name: letter for letter, one in zip(RUN_LETTERS, compared, strict=False)}
    return doubting.sentences([one.doubt for one in compared if one.doubt], letters)


def _told(compared: Sequence[ComparedRun]) -> list[str]:
    """The remarks on all runs, each once, with the letters of its runs."""
    whose: dict[str, list[str]] = {}
    for letter, one in zip(RUN_LETTERS, compared, strict=False):
        for text in remarks(one.run):
            whose.setdefault(text, []).append(letter)
    return [f"{', '.join(letters)}: {text}" for text, letters in whose.items()]


def _tables(compared: Sequence[ComparedRun]) -> Iterator[tuple[str, Row, list[Row]]]:
    """Title, head and rows of the tables; the first one only where settings differ, the last one
    only where all runs have metrics of the same name."""
    head, *rows = settings_table(compared)
    if rows:
        yield "settings that differ", head, rows
    head, *rows = figures_table(compared)
    yield "final figures", head, rows
    head, *rows = metrics_table(compared)
    if rows:
        yield "metrics of all runs: the last value, least to most", head, rows


def settings_table(compared: Sequence[ComparedRun]) -> list[Row]:
    """The settings that differ, one per row below the head."""
    different = differing([one.run for one in compared])
    head = ("setting", *RUN_LETTERS[: len(compared)])
    return [head, *((name, *values) for name, values in different.items())]


def figures_table(compared: Sequence[ComparedRun]) -> list[Row]:
    """The final figures, one run per row below the head."""
    goal = compared[0].goal
    rows = [_row(letter, one) for letter, one in zip(RUN_LETTERS, compared, strict=False)]
    if math.isnan(goal):
        return [HEAD, *rows]
    times = [duration(one.seconds_to_goal) for one in compared]
    reached = [(*row, time) for row, time in zip(rows, times, strict=True)]
    return [(*HEAD, f"to {percent(goal)}"), *reached]


def metrics_table(compared: Sequence[ComparedRun]) -> list[Row]:
    """The metrics that all runs have, one per row below the head."""
    head = ("metric", *RUN_LETTERS[: len(compared)])
    rows = [
        (name, *(_metric(_metrics(one.run)[name]) for one in compared))
        for name in common_metrics(compared)
    ]
    return [head, *rows]


def _metric(found: dict[str, Any]) -> str:
    last, least, most = (
        number(math.nan if found[name] is None else found[name])
        for name in ("last", "least", "most")
    )
    return f"{last}, {least} to {most}"


def _row(letter: str, one: ComparedRun) -> Row:
    found = _figures(one)
    interval = one.seconds
    between = f"{seconds(interval.low)} to {seconds(interval.high)}"
    training = found["training_seconds"]
    return (
        letter,
        _loss(found["loss"]),
        _loss(found["test_loss"]),
        UNKNOWN if found["test_accuracy"] is None else percent(found["test_accuracy"], 2),
        seconds(found["step_seconds"]),
        between if math.isfinite(interval.low) else UNKNOWN,
        rate(found["samples_per_second"]),
        percent(found["sync_share"]),
        size(found["bytes_per_step"]),
        fixed(training, 2, " s") if training else UNKNOWN,
        duration(found["elapsed"]),
    )


def _loss(value: float | None) -> str:
    return UNKNOWN if value is None or math.isnan(value) else figures.loss(value)


def verdicts(compared: Sequence[ComparedRun]) -> list[str]:
    """One line per run but the first: faster or slower, by how much, and how far the losses are
    apart."""
    return [
        f"{letter}: {verdict(one)}"
        for letter, one in zip(RUN_LETTERS[1:], compared[1:], strict=False)
    ]


def verdict(one: ComparedRun) -> str:
    """What a run that is not the first one shows beside that, in one sentence."""
    return _finding(one) + _apart(one)


def _finding(one: ComparedRun) -> str:
    if one.against is None:
        return "no verdict on the time per step: a run without steps has none"
    ratio = one.against.ratio
    by = f"{_change(ratio.value)} time per {'sample' if one.is_per_sample else 'step'}"
    if one.is_repetition:
        same = f"no verdict: same recorded settings as A, and {by}"
        return f"{same}: runs on these hosts differ by as much"
    if one.doubt:
        return "no verdict on the time per step: it is in doubt"
    if not math.isfinite(ratio.low):
        return f"no verdict on the time per step: too few steps ({by})"
    sure = f"95% sure: {_bounded(ratio.low, ratio.high)}; " if ratio.high < VAGUE else ""
    bounds = sure + _noise(one.noise)
    if one.against.finding is Finding.NOT_SHOWN:
        return f"no difference to A shown: {by} may be chance ({bounds})"
    return f"{one.against.finding.value} than A: {by} ({bounds})"


def _change(ratio: float) -> str:
    """What a ratio of times means, such as 12.5% more."""
    return f"{abs(ratio - 1):.1%} {'less' if ratio < 1 else 'more'}"


def _bounded(low: float, high: float) -> str:
    """Between which changes a ratio lies, such as 1.0% less to 2.0% more."""
    if low < 1 <= high:
        return f"{_change(low)} to {_change(high)}"
    least, most = (high, low) if high < 1 else (low, high)
    return f"{abs(least - 1):.1%} to {_change(most)}"


def _noise(between: RunNoise) -> str:
    """What a verdict rests on: a single run does not show how much the next one differs."""
    if not between.freedom:
        return f"assuming that equal runs differ by {between.share:.0%}"
    few = ", of which there are few" if between.freedom < FEW else ""
    return f"equal runs differ by {between.share:.1%} here{few}"


def _apart(one: ComparedRun) -> str:
    if not one.common_steps or math.isnan(one.loss_difference):
        return ""
    steps = count(one.common_steps, "common step")
    if not one.loss_difference:
        return f"; the same training loss at {steps}"
    return f"; training losses at most {number(one.loss_difference)} apart at {steps}"


def _notes(compared: Sequence[ComparedRun]) -> list[str]:
    """What the figures are, and what the verdicts rest on."""
    if not any(len(one.run.steps) for one in compared):
        return []
    return [*CAPTIONS, *([REPEAT] if any(one.against for one in compared) else [])]
