"""`rankboard lab …`: start, show, change and stop a cluster in a box."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter

from remote.lab import daemon, logins
from remote.lab.folder import Folder
from remote.lab.lab import Lab, LabHost
from remote.lab.spec import DEFAULT, LabError, parse, rate, show
from tui.flags.command_help import make_app
from tui.flags.common import WHOLE_NUMBER
from tui.kit.exit import refusing
from tui.kit.narrate import echo, narrate
from tui.kit.text_table import Row, print_table

HELP = """\
Run a cluster in a box: hosts on this machine, each with its own network, sshd and home.

It needs Linux, but not root.

Examples:
  rankboard lab up --size 4 --link 1gbit
  rankboard lab cut 3
  rankboard lab down
"""
Name = Annotated[
    str, Parameter(metavar="NAME", help=f"which lab, if there are several (default: {DEFAULT})")
]
HostName = Annotated[str, Parameter(name="HOST", help="a host of the lab, such as node3 or 3")]


@contextmanager
def _open_host(name: str, host: str) -> Iterator[tuple[Lab, str]]:
    """Open a lab to change one of its hosts; yield the lab and the name of the host."""
    with refusing(OSError), Folder(name).lab() as lab:
        yield lab, lab.host(f"node{host}" if host.isdigit() else host).name


def up(
    *,
    size: Annotated[
        int,
        WHOLE_NUMBER,
        Parameter(metavar="N", help="number of hosts (default: 4)"),
    ] = 4,
    link: Annotated[
        str,
        Parameter(
            metavar="RATE",
            help="the rate of their links, such as 1gbit or 100mbit: one for all, or one per host "
            "(default: 1gbit)",
        ),
    ] = "1gbit",
    cpus: Annotated[
        str, Parameter(metavar="CORES", help="limit each host to this many cores, e.g. 0.5")
    ] = "",
    name: Name = DEFAULT,
    hosts: Annotated[str, Parameter(show=False)] = "",
) -> None:
    """Start a lab and print its hosts file.

    The lab stays until rankboard lab down, or a reboot.

    Examples:
      rankboard lab up
      rankboard lab up --size 4 --link 1gbit,1gbit,1gbit,100mbit
      rankboard lab up --name other --link 1gbit/20ms --cpus 0.5
    """
    with refusing(OSError):
        # The name of this flag in earlier versions.
        if hosts:
            raise LabError(f"--hosts {hosts}: the number of hosts is now --size {hosts}")
        folder = Folder(name)
        # Parsed here, too: the daemon is a process of its own, and need not start for wrong words.
        spec = parse(size, link, cpus)
        daemon.begin(name, size, link, cpus)
        hosts_path = folder.path / logins.HOSTS
        echo(hosts_path.read_text(), end="")
    narrate(*spec.remarks(), f"the lab is up; to use it, run: rankboard --hosts {hosts_path}")


def down(*, name: Name = DEFAULT) -> None:
    """Stop a lab and everything that runs in it, and delete the homes of its hosts."""
    with refusing(OSError):
        Folder(name).down()
    narrate(f"the lab {name!r} is down: its hosts, and what ran on them, are gone")


def status(*, name: Name = DEFAULT) -> None:
    """Show the hosts of a lab."""
    with refusing(OSError):
        folder = Folder(name)
        with folder.lab() as lab:
            rows = [_make_row(host) for host in lab.state.hosts]
    print_table(("host", "address", "rate", "link", "sshd", "pid"), rows)
    narrate(f"its hosts file is {folder.path / logins.HOSTS}")


def _make_row(host: LabHost) -> Row:
    link_state = "up" if host.connected else "down"
    sshd_state = "up" if logins.listens(host) else "down"
    return host.name, host.address, show(host.rate), link_state, sshd_state, str(host.pid)


def cut(host: HostName, /, *, name: Name = DEFAULT) -> None:
    """Unplug the cable of a host."""
    with _open_host(name, host) as (lab, host_name):
        lab.cut(host_name)


def heal(host: HostName, /, *, name: Name = DEFAULT) -> None:
    """Plug the cable of a host in again."""
    with _open_host(name, host) as (lab, host_name):
        lab.heal(host_name)


def set_rate(
    host: HostName,
    new_rate: Annotated[str, Parameter(name="RATE", help="the new rate, such as 1gbit or 100mbit")],
    /,
    *,
    name: Name = DEFAULT,
) -> None:
    """Change the rate of a host's link in both directions.

    It takes effect at once, also while a run uses the link.

    Examples:
      rankboard lab rate 2 50mbit
    """
    with _open_host(name, host) as (lab, host_name):
        lab.set_rate(host_name, rate(new_rate, ""))


app = make_app("rankboard lab", None, help=HELP)
COMMANDS: dict[str, Callable[..., None]] = {
    "up": up,
    "down": down,
    "status": status,
    "cut": cut,
    "heal": heal,
    "rate": set_rate,
}
for place, (name, function) in enumerate(COMMANDS.items()):
    command = make_app(f"rankboard lab {name}", function)
    # cyclopts would sort them by name.
    command.sort_key = place
    app.command(command)
