"""`rankboard setup`: torch for the hosts that lack it, or have another version, in an environment
of their own; says first what it is about to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from remote.cluster.hosts import HOSTS_FILE, Host, HostsError, load, naming, select
from remote.errands.setup import Condition, Hear, Installation, Installed, Outlook, Wanted, look
from remote.sanitise import one_line
from remote.transport import Transport
from remote.transport.registry import Transports
from tui.flags.selection import names
from tui.text.prompt import Yes, agreed
from tui.text.usage import USAGE

UNABLE = 3
"""Exit code of a host that could not be set up."""
DEFAULT = Path(HOSTS_FILE)


def setup(
    hosts: Annotated[Path, typer.Option(metavar="FILE", help="the hosts file")] = DEFAULT,
    only: Annotated[
        str, typer.Option(metavar="NAMES", help="only these hosts (names separated by commas)")
    ] = "",
    exclude: Annotated[
        str, typer.Option(metavar="NAMES", help="leave out these hosts (names separated by commas)")
    ] = "",
    torch: Annotated[
        str,
        typer.Option(
            metavar="VERSION", help="the version of torch (default: the one on this machine)"
        ),
    ] = "",
    index_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="the package index for pip, such as https://download.pytorch.org/whl/cpu",
        ),
    ] = "",
    yes: Yes = False,
) -> None:
    """Install torch and torchvision on the hosts that lack them or have another version.

    They go into an environment in the host's workdir; the hosts' own Python is left as it is.

    Examples:
      rankboard setup
      rankboard setup --only node1,node2 --torch 2.14.1

    Exit codes:
      0  all hosts have this version of torch
      2  the command line is wrong, or you did not agree
      3  a host could not be set up
    """
    try:
        chosen = select(load(hosts), only=names(only), exclude=names(exclude)).hosts
    except HostsError as error:
        _say(str(error))
        raise typer.Exit(USAGE) from None
    raise typer.Exit(
        set_up(Transports(chosen), chosen, Wanted.of(torch, index_url), yes=yes, file=hosts)
    )


def set_up(
    transport: Transport, hosts: Sequence[Host], wanted: Wanted, *, yes: bool, file: Path = DEFAULT
) -> int:
    """See what there is, ask unless --yes was given, do it, and say what to write into the hosts
    file: the exit code."""
    outlooks = look(transport, hosts, wanted)
    for outlook in outlooks:
        _say(naming(str(file), outlook.text))
    built = [
        Installed(one.host, one.text, one.venv)
        for one in outlooks
        if one.condition is Condition.BUILT
    ]
    lacking = [one for one in outlooks if one.condition is Condition.LACKING]
    if lacking:
        if not _confirmed(lacking, wanted, yes):
            _say("nothing was changed")
            return USAGE
        with _shown(one.host for one in lacking) as hear:
            done = Installation(transport, wanted, hear).perform([one.host for one in lacking])
        for one in done:
            _say(naming(str(file), one.text))
        built += done
    named = {one.host.name for one in outlooks if one.named}
    _advise([one for one in built if one.venv and one.host.name not in named], file)
    hopeless = any(one.condition is Condition.HOPELESS for one in outlooks) or not all(
        one.venv for one in built
    )
    return UNABLE if hopeless else 0


def _confirmed(lacking: Sequence[Outlook], wanted: Wanted, yes: bool) -> bool:
    """Say what would be done, and ask whether to do it."""
    _say(
        f"pip installs {' '.join(wanted.requirements)} and what they need (hundreds of MB, or "
        "several GB)"
    )
    for one in lacking:
        _say(f"    on {one.host.name} into {one.venv.removesuffix('/bin/python')}")
    return agreed("continue? [y/N]", yes)


def _advise(built: Sequence[Installed], file: Path) -> None:
    """Say what to write into the hosts file, where it is not written there yet."""
    if not built:
        return
    pythons = {one.venv for one in built}
    if len(pythons) == 1:
        names = ", ".join(one.host.name for one in built)
        _say(
            f"write this line into {file}, below the [[host]] of {names}, or once below [defaults]:"
        )
        typer.echo(f'python = "{one_line(pythons.pop())}"')
        return
    _say(f"write into {file}:")
    for one in built:
        typer.echo(f'python = "{one_line(one.venv)}"  # {one.host.name}')


@contextmanager
def _shown(hosts: Iterator[Host]) -> Iterator[Hear]:
    """Who shows how far each host is: a line per host that changes on a terminal, else a line per
    change."""
    if not sys.stderr.isatty():
        yield Lines().hear
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    states = {host.name: "" for host in hosts}
    width = max(map(len, states))
    with Live(
        console=Console(stderr=True, markup=False, highlight=False),
        auto_refresh=False,
        transient=True,
    ) as live:

        def hear(host: Host, doing: str, figures: str) -> None:
            states[host.name] = f"{doing} {figures}"
            lines = (f"{name:<{width}}  {state}" for name, state in states.items())
            live.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)

        yield hear


class Lines:
    """Says each thing that each host does once, without its figures."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def hear(self, host: Host, doing: str, _: str) -> None:
        if self._said.get(host.name) != doing:
            self._said[host.name] = doing
            _say(f"{host.name}: {doing}")


def _say(text: str) -> None:
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        typer.echo(f"rankboard: {indent}{one_line(line)}", err=True)
