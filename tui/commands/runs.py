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
from tui.flags.run_completion import complete_named_run, complete_runs
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
        tuple[str, ...],
        Parameter(metavar="RUN", help="star this run (repeatable)", completer=complete_runs),
    ] = (),
    unstar: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="RUN",
            help="remove the star of this run (repeatable)",
            completer=complete_runs,
        ),
    ] = (),
    note: Annotated[
        tuple[str, str] | None,
        Parameter(
            metavar="RUN TEXT",
            help="write this note on a run; '' removes it",
            completer=complete_named_run,
        ),
    ] = None,
    name: Annotated[
        tuple[str, str] | None,
        Parameter(
            metavar="RUN TEXT",
            help="give a run this name; '' removes it",
            completer=complete_named_run,
        ),
    ] = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """List all runs that are recorded here, the newest last.

    A run has to pass all filters. Keys are the settings of a job and the options of sync methods,
    and: run, name, study, trial, host, nodes, ranks, verdict, cause, {figures}, note, star,
    diverged. VALUE may be several values separated by commas, or a pattern such as 'torchvision/*'.
    Quote filters with < and >.

    loss is the mean of the last 20 steps and over ranks, accuracy that of the last evaluation,
    step_seconds the mean of all iterations but the first. The verdict of a live run is "running".
    It is "left" of a run on other hosts that no launcher records any more: rankboard ps asks
    the hosts.

    Runs that ended before their first step, such as refused ones, are listed with --all, or where
    no others fit. A run of your own script is always listed once its ranks were started.

    Examples:
      rankboard runs sync=ring nodes=4 'loss<0.5'
      rankboard runs study=four-ways verdict!=finished
      rankboard runs model=vgg11 --sort step_seconds
      rankboard runs --star last --note last "the one for the report"
    """
    with refusing(query.QueryError, OSError):
        if star or unstar or note or name:
            if words:
                raise UsageError("give filters, or --star, --unstar, --note and --name, not both")
            _record_marks(runs_dir, star, unstar, note, name)
        else:
            _list_entries(runs_dir, words, sort, reverse, all_runs, json)


FIGURE_KEYS = ", ".join(figure.field for figure in FIGURES)
if runs.__doc__:  # which is the help, and is missing under `python -OO`
    runs.__doc__ = runs.__doc__.replace("{figures}", FIGURE_KEYS)


def _list_entries(
    runs_dir: Path, words: Sequence[str], sort: str, reverse: bool, all_runs: bool, json: bool
) -> None:
    """Print the runs that pass these filters. Raises: QueryError."""
    keep_loaded_modules()  # to search them takes time if runs are many
    query.parse(words)  # mistakes are told before runs are read
    read_errors: list[tuple[str, OSError]] = []
    all_entries = index.entries(runs_dir, lambda *read_error: read_errors.append(read_error))
    named_words, quick_variants = query.name_quick_variants(words, all_entries)
    passes_filters = query.parse(named_words)
    matching_entries = query.sort_runs(filter(passes_filters, all_entries), sort, reverse)
    for study_name, quick_name in quick_variants.items():
        narrate(
            f"only the quick variant of {study_name} was started: these are runs of {quick_name}"
        )
    if json:
        for run in matching_entries:
            echo(dumps(to_object(run)))
    elif matching_entries:
        listed_entries = matching_entries if all_runs else query.without_unstarted(matching_entries)
        shared_texts = show(listed_entries, all_entries)
        if shared_texts:
            narrate(f"all {len(listed_entries)} runs: {', '.join(shared_texts)}")
        narrate(*_describe_hidden(len(matching_entries) - len(listed_entries)))
    elif all_entries:
        narrate(f"none of {count(len(all_entries), 'run')} fits")
    else:
        narrate(f"no runs in {runs_dir}")
    narrate(*_describe_unreadable(matching_entries or all_entries, read_errors))


def _describe_hidden(number: int) -> list[str]:
    """Say how many runs are not listed, and what to do about them."""
    if not number:
        return []
    verb = "is" if number == 1 else "are"
    hidden_text = f"{count(number, 'run')} that made no step {verb} not listed"
    return [f"{hidden_text}: --all lists them, rankboard prune --not-started removes them"]


def _describe_unreadable(runs: Sequence[Entry], errors: Sequence[tuple[str, OSError]]) -> list[str]:
    """Return a line for each reason why a plan of these runs, or another file, cannot be read."""
    # Of equal keys, a dict keeps the last one; reversed, that is the first run of the list.
    first_run = {(PLAN, run.problem): run.name for run in reversed(runs) if run.problem}
    for name, error in errors:
        file_name = PurePath(error.filename).name if error.filename else "record"
        first_run.setdefault((file_name, error.strerror or str(error)), name)
    return [
        f"{name}: its {file_name} cannot be read: {problem_text}"
        for (file_name, problem_text), name in first_run.items()
    ]


def _record_marks(
    runs_dir: Path,
    star: Sequence[str],
    unstar: Sequence[str],
    note: tuple[str, str] | None,
    name: tuple[str, str] | None,
) -> None:
    """Record stars, a note and a name. All runs are looked up first. Raises: OSError, PlanError,
    UsageError."""
    # All are looked up first, so that a mistake in one changes none.
    run_names = dict.fromkeys([*star, *unstar, *(pair[0] for pair in (note, name) if pair)])
    folders = {run_name: _find_folder(run_name, runs_dir) for run_name in run_names}
    for run_name in star:
        marks.star(folders[run_name], True)
        narrate(f"starred {folders[run_name].name}")
    for run_name in unstar:
        marks.star(folders[run_name], False)
        narrate(f"{folders[run_name].name} has no star now")
    if note:
        run_name, mark_text = note
        marks.write_note(folders[run_name], mark_text)
        message_text = "noted on" if mark_text.strip() else "removed the note of"
        narrate(f"{message_text} {folders[run_name].name}")
    if name:
        run_name, mark_text = name
        marks.write_name(folders[run_name], mark_text)
        given_name = mark_text.strip()
        message_text = f"is named {given_name!r} now" if given_name else "has no name now"
        narrate(f"{folders[run_name].name} {message_text}")


def _find_folder(name: str, runs_dir: Path) -> Path:
    """Return the folder of a run. Raises: PlanError, UsageError."""
    run_folder = find(name, runs_dir)
    if not run_folder:
        raise UsageError(f"no run called {name!r} in {runs_dir}: rankboard runs lists all")
    if not is_folder(run_folder):
        raise UsageError(f"{run_folder} is a link: what it leads to is not changed")
    return run_folder
