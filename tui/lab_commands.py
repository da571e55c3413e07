"""`rankboard lab …`: a cluster in a box that stays up, and what may be done to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from remote.lab import daemon, logins
from remote.lab.folder import Folder
from remote.lab.lab import Lab, Node
from remote.lab.spec import LabError, parse, rate, show

USAGE = 2
"""Exit code of whatever a command could not do."""

app = typer.Typer(
    no_args_is_help=True,
    help="A cluster in a box: hosts of this machine with a network, an sshd and a home of their own.",
)
Name = Annotated[str, typer.Option(help="which lab, where there are several")]
HostName = Annotated[str, typer.Argument(metavar="HOST", help="node3, or 3")]


@contextmanager
def _told() -> Iterator[None]:
    """Mistakes in a line or two."""
    try:
        yield
    except (LabError, OSError) as error:
        typer.echo(f"rankboard: {error}", err=True)
        raise typer.Exit(USAGE) from None


@contextmanager
def _host(name: str, host: str) -> Iterator[tuple[Folder, Lab, str]]:
    """The lab and one of its hosts, to be changed."""
    with _told():
        folder = Folder(name)
        with folder.lab() as lab:
            yield folder, lab, lab.node(f"node{host}" if host.isdigit() else host).name


@app.command()
def up(
    hosts: Annotated[int, typer.Option(metavar="N", help="how many hosts")] = 4,
    link: Annotated[
        str, typer.Option(metavar="RATE", help="their links: 1gbit, 100mbit, …; one for all, or one per host")
    ] = "1gbit",
    cpus: Annotated[str, typer.Option(metavar="CORES", help="how many cores each host may use, as 0.5")] = "",
    name: Name = "lab",
) -> None:
    """Start a lab, and print its hosts file."""
    with _told():
        folder, spec = Folder(name), parse(hosts, link, cpus)
        remarks = (*spec.remarks(), *daemon.begin(name, hosts, link, cpus))
        path = folder.path / logins.HOSTS
        typer.echo(path.read_text(), nl=False)
    for remark in remarks:
        typer.echo(f"rankboard: {remark}", err=True)
    typer.echo(f"rankboard: the lab is up; to use it: rankboard --hosts {path}", err=True)


@app.command()
def down(name: Name = "lab") -> None:
    """End a lab, with all that runs in it, and remove the homes of its hosts."""
    with _told():
        Folder(name).down()


@app.command()
def status(name: Name = "lab") -> None:
    """Show the hosts of a lab."""
    with _told():
        folder = Folder(name)
        with folder.lab() as lab:
            rows = [("host", "address", "rate", "link", "sshd", "pid"), *map(_row, lab.state.nodes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(map(str.ljust, row, widths)).rstrip())
    typer.echo(f"rankboard: its hosts file is {folder.path / logins.HOSTS}", err=True)


def _row(node: Node) -> tuple[str, ...]:
    link, sshd = ("up" if up else "down" for up in (node.connected, logins.listens(node)))
    return node.name, node.address, show(node.rate), link, sshd, str(node.pid)


@app.command()
def cut(host: HostName, name: Name = "lab") -> None:
    """Pull a host's cable."""
    with _host(name, host) as (_, lab, node):
        lab.cut(node)


@app.command()
def heal(host: HostName, name: Name = "lab") -> None:
    """Put a host's cable back."""
    with _host(name, host) as (_, lab, node):
        lab.heal(node)


@app.command(name="rate")
def set_rate(
    host: HostName,
    to: Annotated[str, typer.Argument(metavar="RATE", help="1gbit, 100mbit, …")],
    name: Name = "lab",
) -> None:
    """Change how fast a host's link is, both ways."""
    with _host(name, host) as (_, lab, node):
        lab.set_rate(node, rate(to, ""))


@app.command()
def stop_sshd(host: HostName, name: Name = "lab") -> None:
    """Stop a host's sshd: no new connections; those that are open live on."""
    with _host(name, host) as (folder, lab, node):
        logins.stop(folder.path, lab, node)


@app.command()
def start_sshd(host: HostName, name: Name = "lab") -> None:
    """Start a host's sshd again."""
    with _host(name, host) as (folder, lab, node):
        logins.start(folder.path, lab, node)
