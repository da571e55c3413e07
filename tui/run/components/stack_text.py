"""The stacks of ranks, as text: a line that says where a rank is, and its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.content import Content

from remote.format import duration
from remote.run.diagnosis.stacks import (
    Presence,
    StackFrame,
    locate_rank,
    parse_frames,
    split_threads,
)
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.run.state.rank_state import RankState
from remote.sanitise import plain

STYLES = {
    Presence.INSIDE: "$text-success",
    Presence.ELSEWHERE: "bold $text-warning",
    Presence.STOPPED: "bold $text-error",
    Presence.UNKNOWN: "$text-muted",
}
HEADS = {
    Presence.INSIDE: "in ",
    Presence.STOPPED: "stopped",
    Presence.UNKNOWN: "no Python stack, ",
}
WIDE_SCREEN = 120
"""Columns from which on a line of code stands beside its call."""


def whereabouts_line(run: RunState, rank: RankState) -> Content:
    """Where a rank is, in a line."""
    if rank.stack is None:
        return Content(f"{_rank_name(run, rank)}  {rank.exit or 'no stack yet'}")
    location = locate_rank(rank.stack)
    where = plain(location.where)
    head = HEADS.get(location.presence, "")
    if location.presence is Presence.STOPPED and where:
        head = f"{head}, in "
    return Content.assemble(f"{_rank_name(run, rank)}  ", (head + where, STYLES[location.presence]))


def stack_lines(run: RunState, rank: RankState, now: float, width: int) -> Iterator[Content]:
    """The stack of a rank beneath a line that says from when it is."""
    yield Content.styled(f"{_rank_name(run, rank)}: {stack_source(run, rank, now)}", "bold")
    if rank.stack:
        yield from _thread_lines(rank.stack.text, width)


def stack_steps(ranks: Iterable[RankState]) -> str:
    """After which steps the stacks of an ended run were taken: "stacks of step 60"; "" where there
    are none."""
    steps = sorted({rank.stack_step for rank in ranks if rank.stack})
    if not steps:
        return ""
    span = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    return f"stacks of step {span}"


def _rank_name(run: RunState, rank: RankState) -> str:
    return f"rank {rank.rank} on {plain(run.host_name(rank.host))}"


def stack_source(run: RunState, rank: RankState, now: float) -> str:
    """From whom the stack of a rank is, and from when."""
    if rank.stack is None:
        return "no stack" if run.phase is RunPhase.ENDED else "no stack yet"
    if run.phase is RunPhase.ENDED:
        return f"from {rank.stack.source}, after step {rank.stack_step}"
    return f"from {rank.stack.source}, {duration(max(0.0, now - rank.stack_time))} ago"


def _thread_lines(text: str, width: int) -> Iterator[Content]:
    """The main thread's calls, then the others', with the process's state before them."""
    state, *threads = split_threads(text)
    for line in state:
        yield Content.styled(plain(line), "$text-muted")
    for number, thread in enumerate(threads):
        # The main thread comes first, and needs no title.
        if number:
            yield Content.styled(plain(thread[0]), "$text-muted")
        for frame in parse_frames(thread):
            yield from _call_lines(frame, width)


def _call_lines(frame: StackFrame, width: int) -> Iterator[Content]:
    """A call in a line with its code beside it, where there is room, else beneath."""
    is_wide = width >= WIDE_SCREEN
    room = width // 2 if is_wide else width
    where = plain(f"  {frame.file}:{frame.line}, {frame.function}")
    if len(where) > room:  # the end of a path tells more than its beginning
        where = f"  …{where[3 - room :]}"
    code = plain(frame.code)
    if is_wide:
        shown = code[: max(0, width - room - 2)]
        yield Content.assemble(where.ljust(room), "  ", (shown, "$text-muted"))
        return
    yield Content(where)
    if code:
        yield Content.styled(f"      {code[: max(0, width - 6)]}", "$text-muted")
