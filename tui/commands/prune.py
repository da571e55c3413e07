"""`rankboard prune`: delete ended runs on the hosts and here."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.format import UNKNOWN, age, count, size
from remote.host_commands import inventory, pruning
from remote.host_commands.inventory import RunInventory
from remote.host_commands.pruning import ELSEWHERE, KeptRun, Removable
from remote.record.find import meant
from tui.flags.common import RUNS, WHOLE_NUMBER, HostsFile, RunsDir, Yes
from tui.flags.run_completion import complete_runs
from tui.flags.selection import reach_hosts, report_unreachable
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import narrate
from tui.kit.prompt import confirm
from tui.kit.text_table import Row, print_table

AGE = "7d"
"""Runs that ended at least so long ago are removed, if no age is given."""
COLUMNS = ("run", "state", "age", "size", "recorded", "where")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def prune(
    names: Annotated[
        tuple[str, ...],
        Parameter(
            name="RUN",
            help="only these runs, even if their hosts cannot be reached",
            completer=complete_runs,
        ),
    ] = (),
    /,
    *,
    hosts: HostsFile = None,
    older_than: Annotated[
        str | None,
        Parameter(
            metavar="AGE",
            help="only runs that ended at least this long ago: 12h, 7d, 2w; 0 for all (default: "
            "7d)",
        ),
    ] = None,
    keep: Annotated[
        int,
        WHOLE_NUMBER,
        Parameter(metavar="N", validator=Number(gte=0), help="keep the N newest of them"),
    ] = 0,
    not_started: Annotated[
        bool,
        Parameter(
            help="only runs that ended before their first step, of any age",
        ),
    ] = False,
    elsewhere: Annotated[
        bool,
        Parameter(
            help="also runs on the hosts that are not recorded here: started from another folder, "
            "or by somebody else",
        ),
    ] = False,
    dry_run: Annotated[bool, Parameter(help="only show what would be removed")] = False,
    yes: Yes = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Delete ended runs, with their checkpoints, on the hosts and here, if you agree.

    Code on the hosts that no live run uses is removed too. Live runs and runs with a star are kept.
    So are runs that are not recorded here, unless --elsewhere is given or they are named.

    Examples:
      rankboard prune
      rankboard prune --older-than 0 --keep 3
      rankboard prune --not-started --dry-run
      rankboard prune 20261120-0930 20261121-1145

    Exit codes:
      0  done
      2  the command line is wrong, or confirmation was not possible
      3  a host did not answer
    """
    with refusing():
        if names and (older_than or keep or not_started or elsewhere):
            flags = "--older-than, --keep, --not-started and --elsewhere"
            raise UsageError(f"name runs, or choose them with {flags}, not both")
        age_limit = older_than or ("0" if not_started else AGE)
        min_age = _parse_age(age_limit)
        transport, known_hosts = reach_hosts(hosts)
        # Reading the steps takes longer, and only --not-started asks for them.
        known_runs = inventory.take_inventory(transport, known_hosts, runs_dir, figures=not_started)
        named = _match_names(names, known_runs)
        removable, kept_runs = pruning.find_removable(
            known_runs, min_age, keep, named, takes_elsewhere=elsewhere, without_step=not_started
        )
        if removable:
            print_table(COLUMNS, _make_rows(removable))
        # The commands that are proposed have to find the same hosts.
        hosts_flag = f" --hosts {shlex.quote(str(hosts))}" if hosts else ""
        narrate(*_explain_kept(kept_runs, hosts_flag))
        removed_names = named.intersection(part.run for part in removable)
        narrate(*_warn_of_unreachable(known_runs, removed_names))
        if removable and dry_run:
            narrate(f"would remove {_describe_total(removable)}; nothing was removed")
        elif removable and confirm(f"remove {_describe_total(removable)}? [y/N]", yes):
            freed, problems = pruning.remove_files(transport, known_hosts, runs_dir, removable)
            narrate(*problems)
            narrate(f"removed {size(freed)}")
        # Why runs that are named stay has been said above.
        elif not removable and not named:
            narrate(_explain_nothing(age_limit if min_age else "", keep, not_started))
        report_unreachable(known_runs.problems)


def _parse_age(text: str) -> float:
    """Return the seconds of an age such as 12h. Raises: UsageError."""
    age_match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip())
    if age_match:
        age_number = float(age_match[1])
        unit_name = age_match[2]
        if unit_name or age_number == 0:  # only 0 needs no unit
            return age_number * UNITS[unit_name]
    raise UsageError(f"--older-than {text}: write a number and s, m, h, d or w, such as 12h or 7d")


def _match_names(names: Sequence[str], known_runs: RunInventory) -> set[str]:
    """Find the runs that are meant. Raises: UsageError; PlanError, if one may mean several."""
    labels = {run_name.name: run_name.label for run_name in known_runs.runs}
    matching_runs = {given_name: meant(given_name, labels) for given_name in names}
    for given_name, run_name in matching_runs.items():
        if not run_name:
            raise UsageError(
                f"no run called {given_name!r} here or on the hosts: give its name, or the "
                "beginning of it, from rankboard ps"
            )
    return set(matching_runs.values())


def _make_rows(removable: Sequence[Removable]) -> list[Row]:
    """Make one row per run, and a last one for all code."""
    parts_by_run: dict[str, list[Removable]] = defaultdict(list)
    # Code of no run comes last.
    for part in sorted(removable, key=lambda part: not part.run):
        parts_by_run[part.run].append(part)
    return [_make_row(name, parts) for name, parts in parts_by_run.items()]


def _make_row(name: str, parts: Sequence[Removable]) -> Row:
    """Make the row of a run, or of code if `name` is empty."""
    recorded_text = "here" if parts[0].is_recorded_here else "elsewhere"
    place_names = dict.fromkeys(part.host or "here" for part in parts)
    return (
        name or "code that no live run uses",
        parts[0].state if name else UNKNOWN,
        age(min(part.idle for part in parts)),
        size(sum(part.size for part in parts)),
        recorded_text if name else UNKNOWN,
        ", ".join(place_names),
    )


def _explain_kept(kept_runs: Sequence[KeptRun], hosts_flag: str) -> list[str]:
    """Say why runs are kept, and how to remove them all the same; each reason once."""
    by_reason: dict[str, list[KeptRun]] = defaultdict(list)
    for kept_run in kept_runs:
        by_reason[kept_run.why].append(kept_run)
    explanations = []
    for reason, reason_runs in by_reason.items():
        subject_text = f"{reason_runs[0].run} is"
        if len(reason_runs) > 1:
            subject_text = f"{count(len(reason_runs), 'run')} are"
        explanation = f"{subject_text} kept: {reason}"
        if reason_runs[0].is_elsewhere:
            explanation += f"; to remove such runs, too: rankboard prune{hosts_flag} --elsewhere"
        elif reason_runs[0].by_name:
            run_names = " ".join(kept_run.run for kept_run in reason_runs)
            explanation += f"; to remove the record anyway: rankboard prune{hosts_flag} {run_names}"
        explanations.append(explanation)
    return explanations


def _warn_of_unreachable(known_runs: RunInventory, names: set[str]) -> list[str]:
    """Say which files of these runs stay on hosts that cannot be reached."""
    warnings = []
    for run in known_runs.runs:
        unreachable_hosts = pruning.unreachable_hosts(run, known_runs) if run.name in names else []
        if unreachable_hosts:
            warnings.append(
                f"{run.name}: cannot reach {', '.join(unreachable_hosts)}: files of the run stay "
                "there, and a live run continues"
            )
    return warnings


def _describe_total(removable: Sequence[Removable]) -> str:
    """Say how many runs these are, whether code is among them, and their size."""
    run_names = {part.run for part in removable if part.run}
    foreign_runs = {part.run for part in removable if part.run and not part.is_recorded_here}
    subject_texts = []
    if foreign_runs:
        subject_texts.append(
            f"{count(len(run_names), 'run')}, {len(foreign_runs)} of them {ELSEWHERE}"
        )
    elif run_names:
        subject_texts.append(count(len(run_names), "run"))
    if any(not part.run for part in removable):
        subject_texts.append("unused code")
    return f"{' and '.join(subject_texts)}, {size(sum(part.size for part in removable))}"


def _explain_nothing(older_than: str, keep: int, without_step: bool) -> str:
    """Say which runs there are none of to remove."""
    ended_text = "has ended"
    if older_than:
        ended_text = f"ended at least {older_than} ago"
    if without_step:
        ended_text += ", before its first step"
    exception_text = f", except for the {keep} newest" if keep else ""
    return f"nothing to remove that {ended_text}{exception_text}"
