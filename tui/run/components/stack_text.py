"""The stacks of ranks, as text: a line that says where a rank is, and its calls."""

from __future__ import annotations

import posixpath
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby

from textual.content import Content

from remote.format import count, duration, short_ranks
from remote.run.diagnosis.stacks import (
    Presence,
    StackFrame,
    frames,
    locate_rank,
    parse_frames,
    split_threads,
)
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.run.state.rank_state import RankState
from remote.sanitise import plain
from tui.run.components.header_lines import DIM

STYLES = {
    Presence.INSIDE: "$text-success",
    Presence.ELSEWHERE: "bold $text-warning",
    Presence.STOPPED: "bold $text-error",
    Presence.UNKNOWN: DIM,
}
HEADS = {
    Presence.INSIDE: "in ",
    Presence.STOPPED: "stopped",
    Presence.UNKNOWN: "no Python stack, ",
}
WIDE_SCREEN = 120
"""Columns from which on a line of code stands beside its call."""


def group_by_stack(ranks: Iterable[RankState]) -> list[list[RankState]]:
    """Group the ranks that are in the same calls: most of many wait in the same place."""
    groups: dict[Hashable, list[RankState]] = {}
    for rank in ranks:
        groups.setdefault(_stack_key(rank), []).append(rank)
    return list(groups.values())


def _stack_key(rank: RankState) -> Hashable:
    if rank.stack is None:
        return rank.exit
    location = locate_rank(rank.stack)
    _, *threads = split_threads(rank.stack.text)
    # Below the same line of the script, libraries may be in different calls of their own.
    calls = [
        (frame.file, frame.line, frame.function)
        for thread in threads
        for frame in parse_frames(thread)
        if not frame.library
    ]
    return location.presence, location.where, *calls


def whereabouts_line(run: RunState, ranks: Sequence[RankState]) -> Content:
    """Where ranks with equal stacks are, in a line: the call that they are in, and their own line
    of code."""
    first_rank = ranks[0]
    name = _ranks_name(run, ranks)
    if first_rank.stack is None:
        return Content(f"{name}  {first_rank.exit or 'no stack yet'}")
    location = locate_rank(first_rank.stack)
    where = plain(location.where)
    head = HEADS.get(location.presence, "")
    if location.presence is Presence.STOPPED and where:
        head = f"{head}, in "
    own_frame = next((frame for frame in frames(first_rank.stack.text) if not frame.library), None)
    own_text = plain(own_frame.text()) if own_frame else ""
    own_text = "" if own_text in ("", where) else f", at {own_text}"
    # Somewhere else than the others is a mistake only where nothing moves.
    is_harmless = location.presence is Presence.ELSEWHERE and not run.stall
    style = "" if is_harmless else STYLES[location.presence]
    return Content.assemble(f"{name}  ", (head + where, style), (own_text, DIM))


def stack_lines(
    run: RunState,
    ranks: Sequence[RankState],
    now: float,
    width: int,
    *,
    shows_libraries: bool = False,
) -> Iterator[Content]:
    """The stack of ranks that have equal ones, beneath a line that says from when it is. Calls of
    libraries are folded unless `shows_libraries`."""
    first_rank = ranks[0]
    title = f"{_ranks_name(run, ranks)}: {stack_source(run, first_rank, now)}"
    if first_rank.stack is None:
        yield Content.styled(title, "bold")
        return
    text = first_rank.stack.text
    folder = _script_folder(text)
    below = (f"; files are in {plain(folder)}", DIM) if folder else ""
    yield Content.assemble((title, "bold"), below)
    yield from _thread_lines(text, folder, width, shows_libraries=shows_libraries)


def _script_folder(text: str) -> str:
    """Return the folder that all files of the script are in; "" if there is none."""
    folders = {
        posixpath.dirname(frame.file)
        for thread in split_threads(text)[1:]
        for frame in parse_frames(thread)
        if not frame.library and frame.file.startswith("/")
    }
    return posixpath.commonpath(folders) if folders else ""


def stack_steps(ranks: Iterable[RankState]) -> str:
    """After which steps the stacks of an ended run were taken: "stacks of step 60"; "" where there
    are none."""
    steps = sorted({rank.stack_step for rank in ranks if rank.stack})
    if not steps:
        return ""
    span = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    return f"stacks of step {span}"


def _ranks_name(run: RunState, ranks: Sequence[RankState]) -> str:
    hosts = {rank.host for rank in ranks}
    on_host = f" on {plain(run.host_name(ranks[0].host))}" if len(hosts) == 1 else ""
    if len(ranks) == 1:
        return f"rank {ranks[0].rank}{on_host}"
    return f"ranks {short_ranks(rank.rank for rank in ranks)}{on_host}"


def stack_source(run: RunState, rank: RankState, now: float) -> str:
    """From whom the stack of a rank is, and from when."""
    if rank.stack is None:
        return "no stack" if run.phase is RunPhase.ENDED else "no stack yet"
    if run.phase is RunPhase.ENDED:
        return f"from {rank.stack.source}, after step {rank.stack_step}"
    return f"from {rank.stack.source}, {duration(max(0.0, now - rank.stack_time))} ago"


def _thread_lines(
    text: str, folder: str, width: int, *, shows_libraries: bool
) -> Iterator[Content]:
    """The main thread's calls, then the others', with the process's state before them."""
    state, *threads = split_threads(text)
    for line in state:
        yield Content.styled(plain(line), DIM)
    for number, thread in enumerate(threads):
        # The main thread comes first, and needs no title.
        if number:
            yield Content.styled(plain(thread[0]), DIM)
        for library, calls in groupby(parse_frames(thread), lambda frame: frame.library):
            if library and not shows_libraries:
                yield _folded_line(library, list(calls))
                continue
            for frame in calls:
                yield from _call_lines(frame, folder, width)


def _folded_line(library: str, calls: Sequence[StackFrame]) -> Content:
    """Calls of a library in a line, with the newest one."""
    calls_text = count(len(calls), "call")
    text = f"  … {calls_text} of {library}, the newest is {calls[0].function}"
    return Content.styled(plain(text), DIM)


def _call_lines(frame: StackFrame, folder: str, width: int) -> Iterator[Content]:
    """A call in a line with its code beside it, where there is room, else beneath."""
    is_wide = width >= WIDE_SCREEN
    room = width // 2 if is_wide else width
    file = frame.file.removeprefix(f"{folder}/") if folder else frame.file
    where = plain(f"  {file}:{frame.line}, {frame.function}")
    if len(where) > room:  # the end of a path tells more than its beginning
        where = f"  …{where[3 - room :]}"
    code = plain(frame.code)
    if is_wide:
        shown = code[: max(0, width - room - 2)]
        yield Content.assemble(where.ljust(room), "  ", (shown, DIM))
        return
    yield Content(where)
    if code:
        yield Content.styled(f"      {code[: max(0, width - 6)]}", DIM)
