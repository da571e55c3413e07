"""The fields of the launch form for a script, which runs in place of a job."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from remote.plan.plan import PlanError, Script
from training.mistake import Mistake
from tui.flags.script import ScriptFlags, make_script
from tui.flags.torchrun import parse_script_line
from tui.kit.exit import UsageError
from tui.launch.form_fields import OFF, ON, SWITCH, FormField

GROUP = "your script"
"""The name of their group."""
NO_SCRIPT = "your own script instead"
"""The name of the group in which a script can be written as long as there is none."""
WORDS = "program.words"
CWD = "program.cwd"
WATCH = "program.watch"
BEFORE = "program.before"
FOLLOW = "program.follow"
FETCH = "program.fetch"
FIELDS = (
    FormField(
        WORDS,
        "program",
        "your own script and its arguments, such as train.py --lr 0.1; without one, rankboard "
        "trains itself",
        flag="--program",
    ),
    FormField(
        CWD,
        "cwd",
        "the folder on the hosts to work in; empty: the path of this folder",
        flag="--cwd",
    ),
    FormField(
        WATCH,
        "watch",
        "watch torch to see loss, iterations and waits",
        ON,
        SWITCH,
        bool,
        "--watch",
    ),
    FormField(
        BEFORE,
        "before",
        "a command that runs on each host once before the ranks, such as mkdir -p output",
        flag="--before",
    ),
    FormField(
        FOLLOW,
        "follow",
        "files that it writes, to read as they grow, such as logs/*.csv",
        flag="--follow",
    ),
    FormField(
        FETCH,
        "fetch",
        "files to copy from the hosts at the end, such as 'out/*.pt'",
        flag="--fetch",
    ),
)
PROGRAM_FLAGS = {"--module", "--no-python", "--use-env"}
"""The flags of torchrun that say how to start a program, not where."""


def parse_script(get_text: Callable[[str], str]) -> Script:
    """Return the script that the texts of the fields describe. Raises: PlanError."""
    try:
        line = parse_script_line(_split("--program", get_text(WORDS)))
    except UsageError as error:
        raise PlanError(Mistake("--program", problem=str(error))) from None
    # Where the ranks run is said by the other fields of the form.
    other_flags = line.flags.keys() - PROGRAM_FLAGS
    if other_flags:
        hint = "leave flags of torchrun out here"
        raise PlanError(Mistake("--program", problem=min(other_flags), hint=hint))
    for name, _ in set(line.env).difference(line.variables):
        hint = "leave out variables of a rank's place"
        raise PlanError(Mistake("--program", problem=name, hint=hint))
    flags = ScriptFlags(
        watch=get_text(WATCH) == ON,
        before=get_text(BEFORE),
        follow=tuple(_split("--follow", get_text(FOLLOW))),
        results=tuple(_split("--fetch", get_text(FETCH))),
    )
    script = make_script(line, flags, {})
    assert script  # there are words
    return script


def format_script(script: Script) -> Mapping[str, str]:
    """Return the texts of the fields for a script."""
    return {
        WORDS: script.command_line(),
        WATCH: ON if script.watch else OFF,
        BEFORE: script.before,
        FOLLOW: shlex.join(script.follow),
        FETCH: shlex.join(script.fetch),
    }


def format_script_arguments(script: Script, cwd: str) -> list[str]:
    """Return the arguments of the command line for a script, with its own words last."""
    arguments = []
    if cwd:
        arguments += ["--cwd", cwd]
    if not script.watch:
        arguments.append("--no-watch")
    if script.before:
        arguments += ["--before", script.before]
    for pattern in script.follow:
        arguments += ["--follow", pattern]
    for pattern in script.fetch:
        arguments += ["--fetch", pattern]
    return [*arguments, "--", *script.typed_words]


def _split(flag: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        mistake = Mistake(flag, text, str(error).lower(), "close the quotes")
        raise PlanError(mistake) from None
