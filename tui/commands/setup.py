"""`rankboard setup`: torch for the hosts that lack it, or have another version, in an environment
of their own; says first what it is about to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remote.cluster.hosts import Host, select
from remote.cluster.load import load
from remote.format import count
from remote.host_commands.setup import (
    HostPackages,
    Installation,
    InstallOutcome,
    PackageCondition,
    ProgressListener,
    WantedPackages,
    inspect_hosts,
)
from remote.sanitise import one_line
from remote.transport import Transport
from remote.transport.registry import Transports
from tui.flags.common import HOSTS, Exclude, HostsFile, Only, Yes, split_names
from tui.kit.exit import UNREACHABLE, USAGE, refusing
from tui.kit.narrate import echo, narrate
from tui.kit.prompt import confirm


def setup(
    *,
    hosts: HostsFile = None,
    only: Only = "",
    exclude: Exclude = "",
    torch: Annotated[
        str,
        Parameter(
            metavar="VERSION", help="the version of torch (default: the one on this machine)"
        ),
    ] = "",
    index_url: Annotated[
        str,
        Parameter(
            metavar="URL",
            help="the package index for pip, such as https://download.pytorch.org/whl/cpu",
        ),
    ] = "",
    yes: Yes = False,
) -> None:
    """Install torch and torchvision on the hosts that lack them or have another version.

    They go into an environment in each host's workdir; the host's own Python stays unchanged.

    Examples:
      rankboard setup
      rankboard setup --only node1,node2 --torch 2.14.1

    Exit codes:
      0  all hosts have this version of torch
      2  the command line is wrong, or you did not agree
      3  a host could not be set up
    """
    file = hosts or HOSTS
    with refusing():
        cluster = select(load(file), only=split_names(only), exclude=split_names(exclude))
        wanted = WantedPackages.of(torch, index_url)
        code = set_up(Transports(cluster.hosts), cluster.hosts, wanted, yes=yes, file=file)
    raise SystemExit(code)


def set_up(
    transport: Transport,
    hosts: Sequence[Host],
    wanted: WantedPackages,
    *,
    yes: bool,
    file: Path = HOSTS,
) -> int:
    """See what there is, ask unless --yes was given, do it, and say what to write into the hosts
    file: the exit code."""
    outlooks = inspect_hosts(transport, hosts, wanted)
    for outlook in outlooks:
        narrate(outlook.text)
    built = [
        InstallOutcome(one.host, one.text, one.venv)
        for one in outlooks
        if one.condition is PackageCondition.BUILT
    ]
    lacking = [one for one in outlooks if one.condition is PackageCondition.LACKING]
    if lacking:
        if not _confirmed(lacking, wanted, yes):
            narrate("nothing was changed")
            return USAGE
        with _shown(one.host for one in lacking) as hear:
            done = Installation(transport, wanted, hear).perform([one.host for one in lacking])
        for one in done:
            narrate(one.text)
        built += done
    named = {one.host.name for one in outlooks if one.named}
    hopeless = any(one.condition is PackageCondition.HOPELESS for one in outlooks) or not all(
        one.venv for one in built
    )
    if not lacking and not hopeless:
        whose = count(len(outlooks), "host") + (" has" if len(outlooks) == 1 else " have")
        narrate(f"nothing to install: {whose} {' and '.join(wanted.packages)}")
    _advise([one for one in built if one.venv and one.host.name not in named], file)
    return UNREACHABLE if hopeless else 0


def _confirmed(lacking: Sequence[HostPackages], wanted: WantedPackages, yes: bool) -> bool:
    """Say what would be done, and ask whether to do it."""
    narrate(
        f"pip will install {' '.join(wanted.requirements)} and their dependencies (hundreds of MB "
        "to several GB)"
    )
    for one in lacking:
        narrate(f"    on {one.host.name} into {one.venv.removesuffix('/bin/python')}")
    return confirm("continue? [y/N]", yes)


def _advise(built: Sequence[InstallOutcome], file: Path) -> None:
    """Say what to write into the hosts file, where it is not written there yet."""
    if not built:
        return
    pythons = {one.venv for one in built}
    if len(pythons) == 1:
        names = ", ".join(one.host.name for one in built)
        narrate(
            f"write this line into {file}, below the [[host]] of {names}, or once below [defaults]:"
        )
        echo(f'python = "{one_line(pythons.pop())}"')
        return
    narrate(f"write into {file}:")
    for one in built:
        echo(f'python = "{one_line(one.venv)}"  # {one.host.name}')


@contextmanager
def _shown(hosts: Iterator[Host]) -> Iterator[ProgressListener]:
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
            narrate(f"{host.name}: {doing}")
