"""Declare the flags that several commands share, each once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter, Token

from remote.cluster.hosts import HOSTS_FILE
from tui.flags.run_completion import complete_runs
from tui.kit.exit import UsageError

if TYPE_CHECKING:
    from remote.session.notify import Notifier

HOSTS = Path(HOSTS_FILE)
"""The hosts file, if none is named."""
LAB_ENDS = "the lab of --link ends with this command; start one that stays with rankboard lab up"
"""Why a run in a lab of --link cannot outlive its launcher."""
RUNS = Path("runs")
"""The folder where runs are recorded, if none is named."""

# The boxes of the help, in its order.
ARGUMENTS = Group("Arguments", sort_key=0)
OPTIONS = Group("Options", sort_key=1)
SCRIPT = Group("Your own script: rankboard … -- train.py --lr 0.1", sort_key=2)
FAILURES = Group("Failures and disconnects", sort_key=3)
FIRST_JOB_GROUP = 4
"""The place of the first group of job flags."""
COMMANDS = Group("Commands", sort_key=99)


def _read_whole_number(kind: object, tokens: Sequence[Token]) -> int:
    """Read a whole number. Raises: ValueError, also for 1.5, which cyclopts would round."""
    return int(tokens[0].value)


WHOLE_NUMBER = Parameter(converter=_read_whole_number)

HostsFile = Annotated[
    Path | None, Parameter(metavar="FILE", help=f"the hosts file (default: {HOSTS_FILE})")
]
RunsDir = Annotated[
    Path, Parameter(metavar="PATH", help=f"the folder where runs are recorded (default: {RUNS})")
]
Only = Annotated[
    str, Parameter(metavar="NAMES", help="use only these hosts (names separated by commas)")
]
Exclude = Annotated[
    str, Parameter(metavar="NAMES", help="leave out these hosts (names separated by commas)")
]
Yes = Annotated[bool, Parameter(name=("--yes", "-y"), help="do not ask for confirmation")]
RunName = Annotated[
    str,
    Parameter(
        name="RUN",
        help="the run: its name, the name that you gave it, the beginning of its name, its folder, "
        "or last for the newest run",
        completer=complete_runs,
    ),
]
Verbose = Annotated[
    bool,
    Parameter(name=("--verbose", "-v"), help="with --run: print each step of the start"),
]
AsLines = Annotated[
    bool, Parameter(name="--run", help="run without the dashboard, and print lines")
]
Notify = Annotated[
    str,
    Parameter(
        metavar="COMMAND|URL",
        help="when the run ends, fails or stalls: run this command, or POST JSON to this URL",
    ),
]
# The command line applies --ascii before it calls the command, which has no use for the value.
Ascii = Annotated[
    bool,
    Parameter(
        name="--ascii",
        help="draw with ASCII characters only (default: if the locale is not UTF-8)",
    ),
]


def split_names(text: str) -> tuple[str, ...]:
    """Split a list of names at its commas."""
    names = (name.strip() for name in text.split(","))
    return tuple(name for name in names if name)


def make_notifier(target: str) -> Notifier | None:
    """Return the notifier of the flag --notify, or None without a target. Raises: UsageError."""
    if not target:
        return None
    # Most runs notify nobody, and importing this takes time.
    from remote.session.notify import Notifier, NotifyError

    try:
        return Notifier(target)
    except NotifyError as error:
        raise UsageError(str(error)) from None
