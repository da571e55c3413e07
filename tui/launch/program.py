"""The fields of the launch form for a program of the user's own."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from remote.plan.plan import PlanError, Script
from tui.flags import script as flags
from tui.flags import torchrun
from tui.kit.exit import UsageError
from tui.launch.field import OFF, ON, SWITCH, Field

GROUP = "your script"
"""The name of their group."""
WORDS = "program.words"
CWD = "program.cwd"
WATCH = "program.watch"
FOLLOW = "program.follow"
FETCH = "program.fetch"
FIELDS = (
    Field(
        WORDS,
        "program",
        "your own program and its arguments, such as train.py --lr 0.1; without one, rankboard "
        "trains itself",
        "",
    ),
    Field(CWD, "cwd", "the folder on the hosts to work in; empty: the path of this folder", ""),
    Field(WATCH, "watch", "watch torch to see loss, iterations and waits", ON, SWITCH),
    Field(FOLLOW, "follow", "files that it writes, to read as they grow, such as logs/*.csv", ""),
    Field(FETCH, "fetch", "files to copy from the hosts at the end, such as 'out/*.pt'", ""),
)


def of_program(is_chosen: bool) -> tuple[Field, ...]:
    """The fields; only that of the program itself where there is none."""
    return FIELDS if is_chosen else FIELDS[:1]


def read(text: Callable[[str], str]) -> Script:
    """The program that the texts of the fields describe. Raises: PlanError."""
    try:
        line = torchrun.parse_script_line(_split("program", text(WORDS)))
    except UsageError as error:
        raise PlanError(f"--program: {error}") from None
    other = line.flags.keys() - {"--module", "--no-python", "--use-env"}
    if other:
        raise PlanError(f"--program: {min(other)}: leave flags of torchrun out here")
    if line.env:
        raise PlanError(f"--program: {line.env[0][0]}: write variables in env of hosts.toml")
    given = flags.ScriptFlags(
        watch=text(WATCH) == ON,
        follow=tuple(_split("follow", text(FOLLOW))),
        results=tuple(_split("fetch", text(FETCH))),
    )
    made = flags.make_script(line.words, given, {})
    assert made
    return made


def write(script: Script) -> Mapping[str, str]:
    """The texts of the fields for a program."""
    return {
        WORDS: script.command_line(),
        WATCH: ON if script.watch else OFF,
        FOLLOW: shlex.join(script.follow),
        FETCH: shlex.join(script.fetch),
    }


def words(script: Script, cwd: str) -> list[str]:
    """The program on a command line, with its options."""
    options = ["--cwd", cwd] if cwd else []
    options += [] if script.watch else ["--no-watch"]
    for pattern in script.follow:
        options += ["--follow", pattern]
    for pattern in script.fetch:
        options += ["--fetch", pattern]
    return [*options, "--", *script.words]


def _split(flag: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise PlanError(f"--{flag} {text}: {str(error).lower()}: close the quotes") from None
