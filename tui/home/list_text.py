"""Describe the list of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from textual.content import Content

from remote.format import count
from remote.sanitise import plain
from tui.home.history import Answered, Listed
from tui.home.run_list import RowSelection, RunItem

GetKey = Callable[[str], str]
"""Returns the key of an action."""
SEVERAL = 2
"""More problems than these are summed up in two lines."""


def count_listed(
    listed: Listed, selection: RowSelection, needy: Sequence[RunItem], *, has_filter: bool
) -> Content:
    """Say how many runs and studies are listed, and how many are live or are to be looked at: the
    `needy` ones. In one colour, as the strip below says what is the matter."""
    recorded = len(listed.runs)
    if has_filter:
        matching = sum(not item.study for item in selection.items)
        parts = [Content(f"{matching} of {count(recorded, 'run')}")]
    else:
        parts = list(map(Content, _count_recorded(listed, selection.hidden)))
    num_live = sum(item.is_live for item in selection.items)
    parts.append(Content(f"{num_live} live"))
    if needy:
        parts.append(Content(f"{len(needy)} to look at"))
    return Content(", ").join(parts)


def _count_recorded(listed: Listed, num_hidden: int) -> Iterator[str]:
    """Yield how many runs are recorded, without those of studies, and then the studies."""
    study_names = {progress.study.name for progress in listed.studies}
    num_in_studies = sum(run.study in study_names for run in listed.runs)
    yield count(len(listed.runs) - num_in_studies - num_hidden, "run")
    if study_names:
        studies = count(len(study_names), "study", "studies")
        yield f"{studies} of {count(num_in_studies, 'run')}"


def describe_problems(answered: Answered, listed: Listed) -> list[str]:
    """Say which hosts do not answer, and which files cannot be read: at most two lines of each."""
    hosts = answered.problems
    files = listed.problems
    if len(hosts) > SEVERAL:
        silent = ", ".join(problem.partition(":")[0] for problem in hosts)
        hosts = (f"{len(hosts)} hosts do not answer: {silent}", hosts[0])
    if len(files) > SEVERAL:
        files = (files[0], f"{len(files) - 1} more files cannot be read")
    return [plain(" ".join(problem.split())) for problem in (*hosts, *files)]


def describe_hidden(number: int, get_key: GetKey) -> str:
    """Say how many runs are left out of the list; "" if there are none."""
    if number == 0:
        return ""
    are, them = ("is", "it") if number == 1 else ("are", "them")
    runs = count(number, "run")
    return f"{runs} that made no step {are} hidden: {get_key('all-runs')} lists {them}"


def suggest(words: Sequence[str], folder: str, get_key: GetKey) -> str:
    """Say what to do if nothing is listed, with a filter of these words or without one."""
    if words:
        return f"No run matches the filter.\n{get_key('back')} removes it."
    return (
        f"No runs in {folder} yet. Press {get_key('new-run')} to set up the first one,\n"
        "or try: rankboard --local 4 --model lenet5 --dataset digits"
    )
