"""`rankboard setup`: torch for the hosts that lack it, or have another version, in an environment of their own; says first what
it is about to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from remote.hosts import Host, HostsError, load, select
from remote.lines import one_line
from remote.setup import Condition, Hear, Installation, Installed, Outlook, Wanted, look
from remote.transport import Transport
from tui.selection import names

USAGE, UNABLE = 2, 3
"""Exit codes: a mistake, or nobody agreed; a host that could not be set up."""


def setup(
    hosts: Annotated[Path, typer.Option(help="the hosts file")] = Path("hosts.toml"),
    only: Annotated[str, typer.Option(metavar="NAMES", help="only these hosts, names joined by commas")] = "",
    exclude: Annotated[str, typer.Option(metavar="NAMES", help="leave these hosts out")] = "",
    torch: Annotated[str, typer.Option(metavar="VERSION", help="this version of torch (default: the one here)")] = "",
    index_url: Annotated[
        str, typer.Option(metavar="URL", help="where pip gets it from, as https://download.pytorch.org/whl/cpu")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Install torch and torchvision, in an environment in their workdir, on the hosts whose python lacks them or has others.

    Exit codes: 0 all hosts have this version of torch, 2 usage or not agreed to, 3 a host could not be set up.
    """
    from remote.transport.ssh import SshTransport

    try:
        chosen = select(load(hosts), only=names(only), exclude=names(exclude)).hosts
    except HostsError as error:
        _say(str(error))
        raise typer.Exit(USAGE) from None
    raise typer.Exit(set_up(SshTransport(), chosen, Wanted.of(torch, index_url), agreed=yes))


def set_up(transport: Transport, hosts: Sequence[Host], wanted: Wanted, *, agreed: bool) -> int:
    """See what there is, ask unless that is agreed, do it, and say what to write into hosts.toml: the exit code."""
    outlooks = look(transport, hosts, wanted)
    for outlook in outlooks:
        _say(outlook.text)
    built = [Installed(one.host, one.text, one.venv) for one in outlooks if one.condition is Condition.BUILT]
    lacking = [one for one in outlooks if one.condition is Condition.LACKING]
    if lacking:
        if not agreed and not _asked(lacking, wanted):
            _say("nothing was changed")
            return USAGE
        with _shown(one.host for one in lacking) as hear:
            done = Installation(transport, wanted, hear).perform([one.host for one in lacking])
        for one in done:
            _say(one.text)
        built += done
    named = {one.host.name for one in outlooks if one.named}
    _advise([one for one in built if one.venv and one.host.name not in named])
    hopeless = any(one.condition is Condition.HOPELESS for one in outlooks) or not all(one.venv for one in built)
    return UNABLE if hopeless else 0


def _asked(lacking: Sequence[Outlook], wanted: Wanted) -> bool:
    """Say what would be done, and hear whether it shall be."""
    _say(f"to be installed there by pip, with what they need: {' '.join(wanted.requirements)} (hundreds of MB, or GB)")
    for one in lacking:
        _say(f"    on {one.host.name} into {one.venv.removesuffix('/bin/python')}")
    typer.echo("rankboard: go on? (yes or no) ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not sys.stdin.isatty() or not answer:  # nobody has pressed enter
        typer.echo("", err=True)
    return answer.strip().lower() in ("y", "yes")


def _advise(built: Sequence[Installed]) -> None:
    """Say what to write into hosts.toml, where it is not written there yet."""
    if not built:
        return
    pythons = {one.venv for one in built}
    if len(pythons) == 1:
        _say(f"for {', '.join(one.host.name for one in built)}, write into hosts.toml:")
        typer.echo(f'python = "{one_line(pythons.pop())}"')
        return
    _say("write into hosts.toml:")
    for one in built:
        typer.echo(f'python = "{one_line(one.venv)}"  # {one.host.name}')


@contextmanager
def _shown(hosts: Iterator[Host]) -> Iterator[Hear]:
    """Who shows how far each host is: a line per host that changes on a terminal, else a line per change."""
    if not sys.stderr.isatty():
        yield Lines().hear
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    states = {host.name: "" for host in hosts}
    width = max(map(len, states))
    with Live(console=Console(stderr=True, markup=False, highlight=False), auto_refresh=False, transient=True) as live:

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
