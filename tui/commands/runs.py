"""`rankboard runs`: list the runs that are recorded here, and mark or name them."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from pathlib import Path, PurePath
from typing import Annotated

from cyclopts import Parameter

from remote.format import count
from remote.record import index, marks, query
from remote.record.entry import Entry
from remote.record.figures import FIGURES
from remote.record.files import is_folder
from remote.record.find import find
from remote.record.layout import PLAN
from tui.flags.common import RUNS, RunsDir
from tui.home.listing import show, to_object
from tui.kit.exit import UsageError, refusing
from tui.kit.interpreter import keep_loaded_modules
from tui.kit.narrate import echo, narrate


def runs(
    words: Annotated[
        tuple[str, ...],
        Parameter(
            name="FILTER",
            help="only runs with this: KEY=VALUE, KEY!=VALUE, 'KEY<VALUE', 'KEY>VALUE', star, or "
            "a text",
        ),
    ] = (),
    /,
    *,
    sort: Annotated[
        str,
        Parameter(metavar="KEY", help="sort by this key, the lowest value first (default: run)"),
    ] = "run",
    reverse: Annotated[bool, Parameter(name=("--reverse", "-r"), help="reverse the order")] = False,
    all_runs: Annotated[
        bool, Parameter(name=("--all", "-a"), help="list runs that made no step, too")
    ] = False,
    json: Annotated[bool, Parameter(help="print one JSON object per run, of all that fit")] = False,
    star: Annotated[
        tuple[str, ...], Parameter(metavar="RUN", help="star this run (repeatable)")
    ] = (),
    unstar: Annotated[
        tuple[str, ...],
        Parameter(metavar="RUN", help="remove the star of this run (repeatable)"),
    ] = (),
    note: Annotated[
        tuple[str, str] | None,
        Parameter(metavar="RUN TEXT", help="write this note on a run; '' removes it"),
    ] = None,
    name: Annotated[
        tuple[str, str] | None,
        Parameter(metavar="RUN TEXT", help="give a run this name; '' removes it"),
    ] = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """List all runs that are recorded here, the newest last.

    A run has to pass all filters. Keys are the settings of a job and the options of sync methods,
    and: run, name, study, trial, host, nodes, ranks, verdict, cause, {figures}, note, star,
    diverged. VALUE may be several values separated by commas, or a pattern such as 'torchvision/*'.
    Quote filters with < and >.

    loss is that of the last step, accuracy that of the last evaluation, s/iter the mean of
    all iterations but the first. The verdict of a live run is "running". It is "unknown" of a run
    on other hosts that no launcher records any more: rankboard ps asks the hosts.

    Runs that ended before their first step, such as refused ones, are listed with --all, or where
    no others fit. A run of your own script counts if none of its ranks was started.

    Examples:
      rankboard runs sync=ring nodes=4 'loss<0.5'
      rankboard runs study=four-ways verdict!=finished
      rankboard runs model=vgg11 --sort s/iter
      rankboard runs --star last --note last "the one for the report"
    """
    with refusing(query.QueryError, OSError):
        if star or unstar or note or name:
            if words:
                raise UsageError("give filters, or --star, --unstar, --note and --name, not both")
            _mark(runs_dir, star, unstar, note, name)
        else:
            _list(runs_dir, words, sort, reverse, all_runs, json)


FIGURE_KEYS = ", ".join(figure.field for figure in FIGURES)
if runs.__doc__:  # which is the help, and is missing under `python -OO`
    runs.__doc__ = runs.__doc__.replace("{figures}", FIGURE_KEYS)


def _list(
    runs_dir: Path, words: Sequence[str], sort: str, reverse: bool, all_runs: bool, json: bool
) -> None:
    """Print the runs that pass these filters. Raises: QueryError."""
    keep_loaded_modules()  # to search them takes time if runs are many
    passes = query.parse(words)
    errors: list[tuple[str, OSError]] = []
    everyone = index.entries(runs_dir, lambda *one: errors.append(one))
    matching = query.sort_runs(filter(passes, everyone), sort, reverse)
    if json:
        for run in matching:
            echo(dumps(to_object(run)))
    elif matching:
        listed = matching if all_runs else query.without_unstarted(matching)
        shared = show(listed, everyone)
        if shared:
            narrate(f"all {len(listed)} runs: {', '.join(shared)}")
        narrate(*_hidden(len(matching) - len(listed)))
    elif everyone:
        narrate(f"none of {count(len(everyone), 'run')} fits")
    else:
        narrate(f"no runs in {runs_dir}")
    narrate(*_unreadable(matching or everyone, errors))


def _hidden(number: int) -> list[str]:
    """Say how many runs are not listed, and what to do about them."""
    if not number:
        return []
    are = "is" if number == 1 else "are"
    what = f"{count(number, 'run')} that made no step {are} not listed"
    return [f"{what}: --all lists them, rankboard prune --not-started removes them"]


def _unreadable(runs: Sequence[Entry], errors: Sequence[tuple[str, OSError]]) -> list[str]:
    """Return a line for each reason why a plan of these runs, or another file, cannot be read."""
    first = {(PLAN, run.problem): run.name for run in reversed(runs) if run.problem}
    for name, error in errors:
        what = PurePath(error.filename).name if error.filename else "record"
        first.setdefault((what, error.strerror or str(error)), name)
    return [
        f"{name}: its {what} cannot be read: {problem}" for (what, problem), name in first.items()
    ]


def _mark(
    runs_dir: Path,
    star: Sequence[str],
    unstar: Sequence[str],
    note: tuple[str, str] | None,
    name: tuple[str, str] | None,
) -> None:
    """Record stars, a note and a name. All runs are looked up first. Raises: OSError, PlanError,
    UsageError."""
    names = dict.fromkeys([*star, *unstar, *(pair[0] for pair in (note, name) if pair)])
    folders = {run: _find_folder(run, runs_dir) for run in names}
    for run in star:
        marks.star(folders[run], True)
        narrate(f"starred {folders[run].name}")
    for run in unstar:
        marks.star(folders[run], False)
        narrate(f"{folders[run].name} has no star now")
    if note:
        run, text = note
        marks.write_note(folders[run], text)
        message = "noted on" if text.strip() else "removed the note of"
        narrate(f"{message} {folders[run].name}")
    if name:
        run, text = name
        marks.write_name(folders[run], text)
        message = f"is named {text.strip()!r} now" if text.strip() else "has no name now"
        narrate(f"{folders[run].name} {message}")


def _find_folder(name: str, runs_dir: Path) -> Path:
    """Return the folder of a run. Raises: PlanError, UsageError."""
    folder = find(name, runs_dir)
    if not folder:
        raise UsageError(f"no run called {name!r} in {runs_dir}: rankboard runs lists all")
    if not is_folder(folder):
        raise UsageError(f"{folder} is a link: what it leads to is not changed")
    return folder
