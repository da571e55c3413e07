"""The rendezvous port: bound here before any rank starts, so that nobody can take it meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
from pathlib import Path

from training.commands import Reserve

_LISTEN = "0A"


class PortError(Exception):
    """The port cannot be had; the text says why."""


def reserve(command: Reserve) -> socket.socket:
    """A socket that listens at the address and port asked for.

    Raises: PortError.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((command.address, command.port))
        sock.listen(1024)
    except (OSError, OverflowError) as error:
        sock.close()
        raise PortError(_why(command, error)) from error
    return sock


def _why(command: Reserve, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {command.port} on {command.address} is in use{_holder(command.port)}"
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return f"{command.address} is no address of this host"
    if isinstance(error, PermissionError):
        return f"port {command.port} on {command.address}: permission denied, take one above 1023"
    return f"port {command.port} on {command.address}: {error}"


def _holder(port: int) -> str:
    """Who listens there, as far as this user may see it: " by python (pid 123)", or ""."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for link in Path("/proc").glob("[0-9]*/fd/*") if sockets else ():
        with contextlib.suppress(OSError):  # not ours to read, or just gone
            if os.readlink(link) in sockets:
                owner = link.parents[1]
                return f" by {(owner / 'comm').read_text().strip()} (pid {owner.name})"
    return ""


def _listening_inodes(port: int) -> set[str]:
    """The inodes of the sockets that listen at a port, at whichever address."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            rows = (line.split() for line in Path(table).read_text().splitlines()[1:])
            found |= {row[9] for row in rows if row[3] == _LISTEN and re.search(f":{port:04X}$", row[1])}
    return found
