"""The lines of the header, with their styles. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from textual.content import Content

from remote.format import UNKNOWN, count, duration, percent
from remote.run.findings.common_step import common_step
from remote.run.findings.flaws import outcome_word
from remote.run.findings.script_visibility import describe_missing_steps
from remote.run.findings.training_loss import find_divergence_step
from remote.run.run_state import RunState
from remote.run.state.phases import RUNNING, RunPhase
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.widgets.phase import phase_look
from tui.kit.widgets.verdict_strip import Severity
from tui.run.components.eta_text import describe_eta
from tui.run.components.header_figures import HeaderFigure

GAP = "  "
NO_TOTAL = "no ETA: the program prints no total"
"""Why a script has neither a bar of progress nor an end."""
NO_ALERTS = "no alerts"
"""What is said of a run of which nothing is to be told: how well it does is another question."""
STOPS_WITH_TERMINAL = ("stops if this terminal closes", "stops if terminal closes")
MIN_PRAISE_WIDTH = 60
"""Columns of a header from which on it says so."""
_TIE = "\xa0"
"""A space that no line is broken at."""
DIM = "$foreground 65%"
"""The style of labels, beside which values are bold."""
BADGE_INKS = {
    "table--good": "auto on $success",
    "table--warn": "auto on $warning",
    "table--bad": "auto on $error",
    "table--dim": "$text on $foreground 20%",
    "": "$text on $foreground 20%",
}
"""The colours of the badge by the style that the state has in tables."""
BAR_INKS = {"table--warn": "$warning", "table--bad": "$error", "table--dim": DIM}
"""The colours of the bar of progress by the same; others are green."""
TRACK_INK = "$ink-rule"
"""The colour of the rest of that bar, as of rules: an empty bar that is brighter looks full."""
SEVERITY_STYLES = {Severity.WARN: "table--warn", Severity.BAD: "table--bad"}
"""The style of a state below which stands such a verdict."""
REPLAY_INK = "bold reverse $accent"
"""The style of the badge of a replay: a state is another thing."""
TIMES_WIDTH = 32
"""Columns that the times at the right edge may take before the bar gets shorter for them."""
MIN_BAR_WIDTH = 6
"""Columns of a bar of progress, at the least."""
FIGURE_GAP = 3
"""Columns between two figures that stand below their labels."""


SPREAD_WIDTH = 100
"""Columns of a header from which on it says between which times the run may end."""

Styled = tuple[str, str]
"""A text, and its style; "" for the usual one."""


class ReplayNote(NamedTuple):
    """What a header says of a replay."""

    badge: str = ""
    """How a moment of the run is shown; "" if it is no moment of the past."""
    end: str = ""
    """What became of the run then."""
    has_step: bool = False
    """The badge says at which step the run is."""


NO_REPLAY = ReplayNote()


class RunLength(NamedTuple):
    """Epochs and steps of a whole run; 0 where they are not known."""

    epochs: int
    steps: int


# The title


def title_line(
    run: RunState,
    replay: ReplayNote,
    given_name: str,
    width: int,
    severity: Severity,
    *,
    has_finding: bool = False,
    stops_with_terminal: bool = False,
) -> Content:
    """The badge of a replay or of the state, and the work; at the right edge the run, by the name
    that a person gave it, and by its own where there is room for both. `severity` is that of the
    verdict on the run; without a finding, a run that trains has no alerts. That it
    `stops_with_terminal` stands before its name, where there is room."""
    if replay.badge:
        # What the run did then is told by its verdict and its ranks.
        badges = [(f" {replay.badge} ", REPLAY_INK)]
        if replay.end:
            badges.append((f" {replay.end} ", DIM))
    else:
        badge_ink = f"bold {BADGE_INKS[_state_style(run, severity)]}"
        is_live = run.phase is RunPhase.TRAINING and not run.is_held and run.step > 0
        is_praised = is_live and not has_finding and width >= MIN_PRAISE_WIDTH
        praise = f", {NO_ALERTS}" if is_praised else ""
        badges = [(f" {phase_text(run, severity)}{praise} ", badge_ink)]
    room = width - _length(badges) - 1
    works = _work_texts(run)
    choices = [(works[0], run.plan.run)]
    if given_name:
        # It matters more than how many ranks there are; the name of the run does not.
        choices = [(works[0], f"{given_name} ({run.plan.run})")]
        choices += [(work, given_name) for work in works]
    # Whoever does not know it loses the run; by its own name it is found elsewhere, too.
    risks = [f"{text}{GAP}" for text in STOPS_WITH_TERMINAL if stops_with_terminal]
    titles = [(work, risk, name) for risk in risks for work, name in choices]
    titles += [(work, "", name) for work, name in choices]
    titles += [(work, "", "") for work in works]
    fitting = (each for each in titles if sum(map(len, each)) + 2 <= room)
    # A command line may be long, and what does not fit is cut off at the end.
    work_text, risk, name = next(fitting, titles[-1])
    work_text = work_text[: max(room, 0)].ljust(room - len(risk) - len(name))
    return Content.assemble(*badges, " ", work_text, risk, (name, DIM)).truncate(width)


def phase_text(run: RunState, severity: Severity = Severity.NEUTRAL) -> str:
    """The sign and the word of what the run does, or of how it has ended, and in which attempt. Of
    a live run with such a verdict, the sign is that of the verdict."""
    allowed = run.launcher.attempts_allowed
    allowed_text = f" of {allowed}" if allowed else ""
    attempt_text = f" (attempt {run.attempt + 1}{allowed_text})" if run.attempt else ""
    word = _state_word(run)
    look = phase_look(word)
    is_doubted = severity is Severity.WARN and word in (RunPhase.TRAINING, RUNNING)
    state_text = f"{palette.sign('slow') if is_doubted else look.sign} {look.word}"
    # As loud as SLOW in the table of ranks: nothing happens until somebody acts.
    if run.doing == "stalled":
        state_text = state_text.upper()
    return f"{state_text}{attempt_text}"


def _state_word(run: RunState) -> str:
    is_slow = run.doing == RunPhase.TRAINING and run.stragglers.slow and not _is_past(run)
    return outcome_word(run) or ("slow" if is_slow else run.doing)


def _state_style(run: RunState, severity: Severity) -> str:
    """Return the style of the badge and of the bar: that of the verdict, if it is no good one."""
    if _is_past(run):
        return "table--dim"
    return SEVERITY_STYLES.get(severity) or phase_look(_state_word(run)).style


def _is_past(run: RunState) -> bool:
    """Return True if this is a moment of a replay, or if nobody records what goes on."""
    return run.is_held and run.phase is not RunPhase.ENDED


def _work_texts(run: RunState) -> list[str]:
    """Return what the run does, with its ranks and, if there is a shorter way, without them."""
    plan = run.plan
    ranks_text = count(len(run.ranks) if run.has_workers else plan.world_size, "rank")
    hosts_text = f" on {count(len(plan.hosts), 'host')}" if len(plan.hosts) > 1 else ""
    if plan.job:
        return [f"{plan.what}, {ranks_text}{hosts_text}", plan.what]
    return [f"{ranks_text}{hosts_text}: {plan.what}"]


# Progress


def progress_line(
    run: RunState,
    run_length: RunLength,
    width: int,
    now: float,
    severity: Severity,
    replay: ReplayNote = NO_REPLAY,
) -> Content:
    """A bar, how far the run is, and at the right edge its times. A replay has a bar elsewhere."""
    total_steps = run_length.steps
    progress_parts = _progress_parts(run, run_length)
    if replay.has_step:
        progress_parts = progress_parts[:-1]
    facts_text = GAP.join(progress_parts)
    times = list(_times(run, total_steps, now, has_room=width >= SPREAD_WIDTH))
    times_length = _length(times)
    has_bar = run.plan.job is not None or total_steps > 0
    if has_bar and not _is_ruined(run):
        share = min(common_step(run) / total_steps, 1.0) if total_steps else 0.0
        if replay.badge:
            facts_text = GAP.join([percent(share), *progress_parts])
            return Content.assemble(*_at_both_edges(facts_text, times, width))
        is_over = run.phase is RunPhase.ENDED
        times_width = times_length if is_over else max(TIMES_WIDTH, times_length)
        bar_width = 0
        # Large numbers of steps, then of epochs, are given up before the bar.
        for num_parts in range(len(progress_parts), -1, -1):
            facts_text = GAP.join([f"{percent(share):>4}", *progress_parts[:num_parts]])
            room = width - len(facts_text) - 2 * len(GAP)
            # So is the place that is kept for longer times.
            bar_width = max(room - times_width, min(MIN_BAR_WIDTH, room - times_length))
            if bar_width >= MIN_BAR_WIDTH:
                break
        if bar_width >= MIN_BAR_WIDTH:
            room = width - bar_width - len(GAP)
            return Content.assemble(
                *_bar(_state_style(run, severity), share, bar_width),
                GAP,
                *_at_both_edges(facts_text, times, room),
            )
        facts_text = f"{common_step(run)}/{total_steps or '?'}"
    if len(facts_text) + len(GAP) + times_length > width:
        times = [(duration(_elapsed(run, now)), DIM)]
    return Content.assemble(*_at_both_edges(facts_text, times, width))


def _is_ruined(run: RunState) -> bool:
    """Return True if a run has ended of which a full bar would praise what is worth nothing."""
    return run.phase is RunPhase.ENDED and find_divergence_step(run) is not None


def _bar(style: str, share: float, width: int) -> Iterator[Styled]:
    num_done = round(width * share)
    yield palette.sign("full") * num_done, BAR_INKS.get(style, "$success")
    yield palette.sign("rest") * (width - num_done), TRACK_INK


def _at_both_edges(left: str, right: Sequence[Styled], width: int) -> Iterator[Styled]:
    yield left, ""
    gap_width = width - len(left) - _length(right)
    if gap_width > 0:
        yield " " * gap_width, ""
        yield from right


def _length(parts: Sequence[Styled]) -> int:
    return sum(len(text) for text, _ in parts)


def _progress_parts(run: RunState, run_length: RunLength) -> list[str]:
    """How far the run is, in epochs and steps; as wide from its first step to its last."""
    step_text = str(common_step(run))
    epoch_text = str(max((rank.epoch for rank in run.ranks), default=0))
    steps_text = str(run_length.steps or "?")
    epochs_text = str(run_length.epochs or "?")
    if run.plan.job:
        epoch_part = f"epoch {epoch_text}/{epochs_text}".ljust(
            len("epoch /") + 2 * len(epochs_text)
        )
        step_part = f"step {step_text}/{steps_text}".ljust(len("step /") + 2 * len(steps_text))
        return [epoch_part, step_part]
    # A user's own program tells what it tells.
    known_parts = [f"epoch {epoch_text}"] if epoch_text != "0" else []
    if run.step:
        known_parts.append(
            f"step {step_text}/{steps_text}" if run_length.steps else f"step {step_text}"
        )
    if run.step and not run_length.steps and run.phase is RunPhase.TRAINING:
        known_parts.append(NO_TOTAL)
    return known_parts or [describe_missing_steps(run)]


def _times(run: RunState, total_steps: int, now: float, *, has_room: bool) -> Iterator[Styled]:
    """For how long the run lasts, and when it will have ended; `has_room` for a spread."""
    is_job = run.plan.job is not None
    if not is_job and not run.elapsed:  # of log files, whose lines have no times
        return
    yield f"{duration(_elapsed(run, now))} elapsed", DIM
    if run.phase is RunPhase.ENDED or run.is_held or not (is_job or total_steps):
        return
    eta = describe_eta(run, now)
    if eta.point == UNKNOWN:  # as before the first steps, and in a stall
        return
    yield f"{GAP}ETA ", DIM
    yield eta.point, ""
    if has_room and eta.spread:
        yield f"{GAP}{eta.spread}", DIM


def _elapsed(run: RunState, now: float) -> float:
    # While no record arrives, `run.elapsed` stands still, and the clock goes on.
    return max(run.elapsed, now - run.started) if run.started else 0.0


# Figures


def figure_lines(
    figures: Sequence[HeaderFigure], width: int, *, is_roomy: bool, stale: str
) -> list[Content]:
    """As many of the figures as there is room for: dim labels, and bold values beside them, or
    where it `is_roomy` below them. All are dim where they are `stale`, which says of when."""
    is_stale = bool(stale)
    if stale:
        known_figures = [figure for figure in figures if figure.is_known]
        stale_figure = HeaderFigure("", stale, len(stale))
        # First where there may be no room for all: the speed would read as that of now.
        figures = [*known_figures, stale_figure] if is_roomy else [stale_figure, *known_figures]
    if is_roomy:
        long_figures = [replace(each, label=each.long_label or each.label) for each in figures]
        fitting_columns = _fit_columns(long_figures, width)
        if len(fitting_columns) < len(figures):
            fitting_columns = _fit_columns(figures, width)
        label_line = "".join(figure.label.ljust(place) for figure, place in fitting_columns)
        values = [_value(figure, place, is_stale=is_stale) for figure, place in fitting_columns]
        return [Content.styled(label_line.rstrip(), DIM), Content.assemble(*values)]
    places = [(figure, len(figure.label) + 1 + figure.width + len(GAP)) for figure in figures]
    parts: list[str | tuple[str, str]] = []
    for figure, place in _fitting(places, width + len(GAP)):
        label = f"{figure.label} " if figure.label else ""
        parts += [(label, DIM), _value(figure, place - len(label), is_stale=is_stale)]
    return [Content.assemble(*parts)] if parts else []


def _fit_columns(figures: Sequence[HeaderFigure], width: int) -> list[tuple[HeaderFigure, int]]:
    """Return the figures that fit below their labels, with the columns that each takes."""
    columns = [(figure, max(len(figure.label), figure.width) + FIGURE_GAP) for figure in figures]
    return list(_fitting(columns, width + FIGURE_GAP))


def _value(figure: HeaderFigure, place: int, *, is_stale: bool) -> tuple[str, str]:
    return figure.value.ljust(place), "bold" if figure.is_known and not is_stale else DIM


def _fitting(
    places: Iterable[tuple[HeaderFigure, int]], room: int
) -> Iterator[tuple[HeaderFigure, int]]:
    for figure, place in places:
        room -= place
        if room < 0:
            return
        yield figure, place


# What the run waits for


def fold_text(text: str, width: int) -> list[str]:
    """Fold a text; the age at its end stays in one piece."""
    text_before, bracket, age_text = plain(text).rpartition(" (")
    lines = textwrap.wrap(f"{text_before}{bracket}{age_text.replace(' ', _TIE)}", width)
    return [line.replace(_TIE, " ") for line in lines]
