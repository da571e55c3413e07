"""What a shell offers where a command takes a run: the runs that are recorded here.

Hosts are not asked: a shell completes while the user waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from training.agent.layout import LAST

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

Candidate = tuple[str, str]
"""A word, and what the shell shows beside it."""


def complete_runs(context: CompletionContext) -> Iterator[Candidate]:
    """Yield the runs that are recorded here, the newest first, by their names and by those that a
    person gave them."""
    from remote.record.find import labels

    runs_dir = _find_runs_dir(context)
    yield LAST, "the newest run"
    for run, label in reversed(labels(runs_dir).items()):
        if run.isprintable():
            yield run, label
        if label:
            yield label, run


def complete_named_run(context: CompletionContext) -> Iterator[Candidate]:
    """Yield the runs for the first of two values, of which the second is a text."""
    if context.index == 0:
        yield from complete_runs(context)


def complete_runs_and_studies(context: CompletionContext) -> Iterator[Candidate]:
    """Yield the studies that are recorded here, then the runs."""
    from remote.study.folder import SUFFIX

    for folder in sorted(_find_runs_dir(context).glob(f"*{SUFFIX}")):
        yield folder.name.removesuffix(SUFFIX), "a study"
    yield from complete_runs(context)


def complete_runs_and_files(context: CompletionContext) -> Iterator[Candidate]:
    """Yield the files whose paths begin with the typed word, then the runs."""
    folder_text, slash, beginning = context.incomplete.rpartition("/")
    folder = Path(f"{folder_text}{slash}" or ".").expanduser()
    for path in sorted(folder.glob("*")):
        if path.name.startswith(beginning) and not (path.name.startswith(".") and not beginning):
            yield f"{folder_text}{slash}{path.name}{'/' if path.is_dir() else ''}", ""
    if not slash:
        yield from complete_runs(context)


def _find_runs_dir(context: CompletionContext) -> Path:
    """Return the folder of runs of the line: that of --runs-dir, if it stands before the word."""
    runs_dir = context["runs_dir"].value
    assert isinstance(runs_dir, Path)
    return runs_dir
