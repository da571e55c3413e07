"""`rankboard setup`: torch for the hosts that lack it, or have another version, in an environment
of their own; says first what it is about to do."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remote.cluster.hosts import Host, select
from remote.cluster.load import load
from remote.format import count
from remote.host_commands.setup import (
    HostPackages,
    PackageCondition,
    ProgressListener,
    WantedPackages,
    inspect_hosts,
    install_packages,
)
from remote.sanitise import one_line
from remote.transport import Transport
from remote.transport.registry import Transports
from tui.flags.common import HOSTS, Exclude, HostsFile, Only, Yes, split_names
from tui.kit.exit import UNREACHABLE, USAGE, refusing
from tui.kit.narrate import echo, narrate
from tui.kit.prompt import confirm

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""The index of PyTorch with its builds for CPUs."""


def setup(
    *,
    hosts: HostsFile = None,
    only: Only = "",
    exclude: Exclude = "",
    torch: Annotated[
        str,
        Parameter(
            metavar="VERSION",
            help="the version of torch (default: the one on this machine, or else the newest)",
        ),
    ] = "",
    index_url: Annotated[
        str,
        Parameter(
            metavar="URL",
            help=f"the package index for pip, such as {CPU_INDEX}",
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
        selected_hosts = select(load(file), only=split_names(only), exclude=split_names(exclude))
        wanted_packages = WantedPackages.of(torch, index_url)
        exit_code = set_up(
            Transports(selected_hosts.hosts),
            selected_hosts.hosts,
            wanted_packages,
            yes=yes,
            file=file,
        )
    raise SystemExit(exit_code)


def set_up(
    transport: Transport,
    hosts: Sequence[Host],
    wanted_packages: WantedPackages,
    *,
    yes: bool,
    file: Path = HOSTS,
) -> int:
    """See what there is, ask unless --yes was given, install, and say what to write into the hosts
    file. Return the exit code."""
    inspected_hosts = inspect_hosts(transport, hosts, wanted_packages)
    narrate(*(packages.text for packages in inspected_hosts))
    by_condition: dict[PackageCondition, list[HostPackages]] = defaultdict(list)
    for packages in inspected_hosts:
        by_condition[packages.condition].append(packages)
    lacking_hosts = by_condition[PackageCondition.LACKING]
    has_failed = PackageCondition.HOPELESS in by_condition
    python_paths = {
        packages_at_host.host.name: packages_at_host.venv
        for packages_at_host in by_condition[PackageCondition.BUILT]
    }
    if lacking_hosts:
        if not _confirm_install(lacking_hosts, wanted_packages, yes):
            narrate("nothing was changed")
            return USAGE
        to_install = [packages.host for packages in lacking_hosts]
        with _show_progress(to_install) as listener:
            install_outcomes = install_packages(transport, to_install, wanted_packages, listener)
        narrate(*(install_outcome.text for install_outcome in install_outcomes))
        python_paths |= {
            install_outcome.host.name: install_outcome.venv for install_outcome in install_outcomes
        }
        has_failed |= not all(install_outcome.venv for install_outcome in install_outcomes)
    elif not has_failed:
        verb = "has" if len(inspected_hosts) == 1 else "have"
        packages_text = " and ".join(wanted_packages.packages)
        narrate(f"nothing to install: {count(len(inspected_hosts), 'host')} {verb} {packages_text}")
    named_hosts = {packages.host.name for packages in inspected_hosts if packages.is_named}
    _advise_on_file(
        {
            name: packages_at_host
            for name, packages_at_host in python_paths.items()
            if packages_at_host and name not in named_hosts
        },
        file,
    )
    return UNREACHABLE if has_failed else 0


def _confirm_install(
    lacking: Sequence[HostPackages], wanted_packages: WantedPackages, yes: bool
) -> bool:
    """Say what would be done, and ask whether to do it."""
    requirements = " ".join(wanted_packages.requirements)
    size_text = "hundreds of MB to several GB"
    if not wanted_packages.index:
        size_text += f"; on hosts without GPUs, --index-url {CPU_INDEX} takes some 200 MB"
    narrate(f"pip will install {requirements} and their dependencies ({size_text})")
    for packages in lacking:
        narrate(f"    on {packages.host.name} into {packages.venv.removesuffix('/bin/python')}")
    return confirm("continue? [y/N]", yes)


def _advise_on_file(pythons: Mapping[str, str], file: Path) -> None:
    """Say what to write into the hosts file, by the names of the hosts."""
    if not pythons:
        return
    distinct_paths = set(pythons.values())
    # One line in [defaults] is less to write than one for each host.
    if len(distinct_paths) == 1:
        host_names = ", ".join(pythons)
        narrate(
            f"write this line into {file}, below the [[host]] of {host_names}, or once below "
            "[defaults]:"
        )
        echo(f'python = "{one_line(distinct_paths.pop())}"')
        return
    narrate(f"write into {file}:")
    for name, python in pythons.items():
        echo(f'python = "{one_line(python)}"  # {name}')


@contextmanager
def _show_progress(hosts: Sequence[Host]) -> Iterator[ProgressListener]:
    """Show how far each host is: a line per host that changes on a terminal, else a line per
    change."""
    # In a log, a line for each percent would bury all others.
    if not sys.stderr.isatty():
        yield PhasePrinter().hear
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    host_states = {host.name: "" for host in hosts}
    name_width = max(map(len, host_states))
    # Each change is drawn as it comes, so rich need not redraw from a thread of its own. The
    # lines go at the end, as the outcomes are printed then.
    with Live(
        console=Console(stderr=True, markup=False, highlight=False),
        auto_refresh=False,
        transient=True,
    ) as live:

        def hear(host: Host, doing: str, progress: str) -> None:
            host_states[host.name] = f"{doing} {progress}"
            state_lines = (f"{name:<{name_width}}  {state}" for name, state in host_states.items())
            live.update(
                Text("\n".join(state_lines), no_wrap=True, overflow="ellipsis"), refresh=True
            )

        yield hear


class PhasePrinter:
    """Prints each thing that each host does once, without its progress."""

    def __init__(self) -> None:
        self._printed: dict[str, str] = {}

    def hear(self, host: Host, doing: str, _: str) -> None:
        """Print what a host does, if that is new."""
        if self._printed.get(host.name) != doing:
            self._printed[host.name] = doing
            narrate(f"{host.name}: {doing}")
