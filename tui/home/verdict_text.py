"""What is the matter with a row of the list, in a sentence, and which keys help."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from remote.format import count, loss, percent
from remote.record.entry import FINISHED, Entry
from remote.run.state.phases import RUN_STATES, RUNNING
from remote.run.state.resume_point import ResumePoint
from remote.sanitise import plain
from remote.study.progress import StudyProgress
from tui.home.list_text import GetKey
from tui.home.run_list import RunItem
from tui.home.run_table import describe_state
from tui.kit.widgets.verdict_strip import NextKey, Reason, Severity, fold_line

SEVERITIES = {
    "table--good": Severity.GOOD,
    "table--warn": Severity.WARN,
    "table--bad": Severity.BAD,
}
"""By the style that the state has in the table."""
TITLE_SIGN = "! "
"""Stands for the sign before a title, where the title is measured."""


class ItemVerdict(NamedTuple):
    """What is the matter with a row of the list."""

    severity: Severity
    finding: str
    reasons: tuple[str, ...] = ()
    """What else is wrong."""
    word: str = ""
    """That of the state, if the finding does not begin with it."""

    @property
    def title(self) -> str:
        """Return it in one line, such as "failed: rank 2 was killed"."""
        return f"{self.word}: {self.finding}" if self.word else self.finding


def judge_item(item: RunItem, answer: Sequence[str] = ()) -> ItemVerdict:
    """Return what became of a run or study, or what it does now. `answer` is that of a study, once
    it is known."""
    state = describe_state(item)
    if item.study:
        severity = SEVERITIES.get(state.style, Severity.NEUTRAL)
        if item.guesses:
            return ItemVerdict(severity, item.guesses.brief_text, word=state.word)
        return _judge_study(item.study, severity, state.text, answer)
    if item.is_live and not item.trouble:
        return ItemVerdict(Severity.NEUTRAL, f"{state.text}{_describe_place(item)}")
    severity = SEVERITIES.get(state.style, Severity.NEUTRAL)
    run = item.entry
    if run is None:
        return ItemVerdict(severity, f"{state.word}, as its hosts say")
    if item.trouble:
        return ItemVerdict(severity, f"{state.word} now{_describe_place(item)}")
    flaws = [flaw.text for flaw in run.flaws]
    if run.verdict != FINISHED:
        meaning = RUN_STATES.get(run.verdict, "its record cannot be read")
        finding = run.problem or run.cause or meaning
        return ItemVerdict(severity, finding, _list_other_flaws(flaws), state.word)
    if flaws:
        return ItemVerdict(severity, flaws[0], _list_other_flaws(flaws[1:]))
    if run.outcome != FINISHED:  # older versions have recorded no more of a flaw
        return ItemVerdict(severity, state.word)
    return ItemVerdict(severity, describe_success(run))


def _list_other_flaws(flaws: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"also {flaw}" for flaw in flaws)


def sort_by_urgency(items: Iterable[RunItem]) -> list[RunItem]:
    """Return rows that need a person, in the order in which to look at them: what goes on now, then
    what failed, then what has a flaw."""
    return sorted(
        items, key=lambda item: (not item.is_live, judge_item(item).severity is not Severity.BAD)
    )


def describe_needs(
    chosen: RunItem, needy: Sequence[RunItem], max_others: int, width: int
) -> tuple[str, list[Reason]]:
    """Say what is the matter with a chosen one of the rows that need a person, in a title and
    reasons below it, and then with others of them, about so many, a line of this width each. Where
    there is room for one other only, the title has two lines at most.

    `needy` are in the order in which to look at them. Each line names its run, in quotes: a run may
    be called "failed".
    """
    verdict = judge_item(chosen)
    others = [item for item in needy if item is not chosen]
    is_first = bool(others) and chosen is needy[0]
    title = plain(
        f'{"Look first at " if is_first else ""}"{chosen.short_title}": {verdict.finding}'
    )
    has_long_title = False
    if max_others == 1:
        # What a cause has behind its first clause, such as what became of other ranks, can wait.
        if len(title) > width - len(TITLE_SIGN):
            title = title.partition("; ")[0]
        has_long_title = len(title) > width - len(TITLE_SIGN)
        title = _cut_to_two_lines(title, width)
    reasons: list[Reason] = list(verdict.reasons)
    order_text = "then at" if is_first else "also"
    # A line that says there is one more takes as much room as that one.
    has_room_for_all = len(others) <= max_others + 1 and not has_long_title
    num_named = len(others) if has_room_for_all else min(max_others, len(others))
    lines = []
    for item in others[:num_named]:
        look = describe_state(item)
        text = plain(f'{look.sign} {order_text} "{item.short_title}": {judge_item(item).finding}')
        if len(text) > width:
            text = text.partition("; ")[0]
        lines.append(text)
    num_more = len(others) - num_named
    if num_more and len(lines) == 1 and len(lines[0]) > width and not has_long_title:
        # An error that is cut says less than how many more there are, which the list shows.
        lines = textwrap.wrap(lines[0], width)
        lines[1:] = [_append_rest(" ".join(lines[1:]), num_more, width)]
    elif num_more and has_long_title:
        # The second line of the title has taken the room of a line on the rest.
        lines[-1] = _append_rest(lines[-1], num_more, width)
    elif num_more:
        lines.append(f"and {num_more} more, marked ! in the list")
    # Without their colours: only the title of the strip is loud.
    reasons += [_cut(Content(line), width) for line in lines]
    return title, reasons


def _cut_to_two_lines(title: str, width: int) -> str:
    """Cut a title to what fits into two lines of the strip, behind its sign."""
    lines = fold_line(Content(TITLE_SIGN + title), width)
    if len(lines) <= 2:
        return title
    first_line = lines[0].plain.removeprefix(TITLE_SIGN)
    rest = title.removeprefix(first_line).lstrip()
    return f"{first_line} {_cut(Content(rest), width).plain}"


def _append_rest(line: str, num_more: int, width: int) -> str:
    """Say at the end of a line how many more runs need a person, and cut the line before that."""
    rest = f", and {num_more} more"
    marked_rest = f"{rest}, marked !"
    if len(line) + len(marked_rest) <= width:
        return line + marked_rest
    return _cut(Content(line), width - len(rest)).plain + rest


def _cut(line: Content, width: int) -> Content:
    return line.truncate(max(width, 1), ellipsis=True)


def _judge_study(
    progress: StudyProgress, severity: Severity, state_text: str, answer: Sequence[str]
) -> ItemVerdict:
    num_planned = len(progress.study.trials())
    num_missing = len(progress.missing_trials())
    runs = count(num_planned, "run")
    if progress.running_cell:
        return ItemVerdict(Severity.NEUTRAL, f"{state_text}: {num_missing} of {runs} are left")
    if progress.num_failed:
        return ItemVerdict(severity, f"{progress.num_failed} of {runs} failed")
    if num_missing:
        return ItemVerdict(Severity.WARN, f"stopped: {num_missing} of {runs} left to be made")
    return ItemVerdict(severity, answer[0] if answer else FINISHED)


def describe_success(run: Entry) -> str:
    """Return how a run that finished well did: "finished: test acc 91.4%"."""
    if run.accuracy is not None:
        return f"finished: test acc {percent(run.accuracy, 1)}"
    if run.loss is not None:
        return f"finished: loss {loss(run.loss)}"
    return FINISHED


def _describe_place(item: RunItem) -> str:
    """Return how far a live run is: " at step 40 of 552"; "" if that is not known."""
    step, steps = item.place
    if not step:
        return ""
    return f" at step {step} of {steps}" if steps else f" at step {step}"


def list_next_keys(item: RunItem, checkpoint_step: int, get_key: GetKey) -> Iterator[NextKey]:
    """Yield the keys that help with a row. `checkpoint_step` is that of the newest checkpoint of a
    run, 0 if none is known."""
    yield NextKey(get_key("open"), "watch it" if item.is_live else "open")
    run = item.entry
    if item.study and not item.is_open:
        yield NextKey(get_key("unfold"), "list its runs")
    if run is None:
        return
    if checkpoint_step and run.verdict not in (FINISHED, RUNNING):
        point = ResumePoint(checkpoint_step, run.step)
        yield NextKey(get_key("resume"), point.text, point.short_text)
    if not run.problem:
        copy_key = get_key("copy-run-command")
        # A new run and a comparison have the better claim to the room of the footer.
        yield NextKey(copy_key, "copy its command", leads_footer=False)
