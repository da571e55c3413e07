"""Build the command that carries the programs of this folder to a host.

`first` is all that most starts need. `rest` is compiled on a host only when a function of it is
called, since that takes longer than all else in a start.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from remote.transport.bootstrap.archive import Archive
from remote.transport.bootstrap.first import SETTLED

BEGIN = "# The host gets all below this line.\n"
COMMENT = re.compile(r"^ *#.*\n|  # .*$|^\n", re.MULTILINE)


def build_start_command(
    python: str,
    workdir: str,
    archive: Archive,
    argv: Sequence[str],
    settled: int = SETTLED,
    *,
    stays: bool = False,
) -> str:
    """Return the command for a host's login shell (sh, bash, zsh, csh or fish) that makes sure of
    the code and becomes the agent.

    `settled`: seconds without a change of the code until its state is kept, with which later starts
    compare it. `stays`: the command ends only once all has ended that the program leaves behind;
    if it leaves something, `LEFT` is the end of what it says. All arguments lie inside the
    encoded program, so that no shell sees their spaces and quotes. `~` works in both paths.
    """
    arguments = (workdir, archive.digest, len(archive.data), list(argv))
    program = f"{_source('first')}REST = {_source('rest')!a}\n"
    if settled != SETTLED:
        program += f"SETTLED = {settled}\n"
    if stays:
        program += "rest('stay')()\n"
    program += f"start(*{arguments!a})\n"
    encoded_program = base64.b64encode(program.encode()).decode()
    # `binascii` is built in; importing `base64` would cost as much as the rest of this program.
    code = f'import binascii;exec(binascii.a2b_base64("{encoded_program}"))'
    return f"{_shell_path(python)} -c '{code}'"


@cache
def _source(program_name: str) -> str:
    """Return what a host gets of a program: the part below `BEGIN`, without comments and empty
    lines."""
    text = Path(__file__).with_name(f"{program_name}.py").read_text()
    return COMMENT.sub("", text.partition(BEGIN)[2])


def _shell_path(path: str) -> str:
    """Return the path quoted, but for a leading `~user/`, which the shell is to expand."""
    home_part, slash, path_rest = path.partition("/")
    return (
        f"{home_part}/{shlex.quote(path_rest)}"
        if path.startswith("~") and slash
        else shlex.quote(path)
    )
