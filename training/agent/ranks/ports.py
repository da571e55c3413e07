"""The rendezvous port: bound before any rank starts, so no other program can take it."""

from __future__ import annotations

import errno
import os
import socket

from training.agent.host.proc_files import open_files, read_name
from training.agent.host.system import read_text

_LISTEN = "0A"


class PortError(Exception):
    """The port cannot be bound; the text says why."""


def reserve_port(address: str, port: int) -> socket.socket:
    """Bind a socket to the address and port, and listen; port 0 is any free one.

    Raises: PortError.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections of the run before may still be in TIME_WAIT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1024)
    except (OSError, OverflowError) as error:
        sock.close()
        raise PortError(_why(address, port, error)) from error
    return sock


def _why(address: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {port} on {address} is in use{_holder(port)}"
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is not an address of this host"
    if isinstance(error, PermissionError):
        return f"port {port} on {address}: permission denied, take one above 1023"
    return f"port {port} on {address}: {error}"


def _holder(port: int) -> str:
    """Name the process that listens on the port, such as " by python (pid 123)"; "" if this user
    cannot see it."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for pid in filter(str.isdigit, os.listdir("/proc")) if sockets else ():
        if any(target in sockets for _, target in open_files(pid)):
            return f" by {read_name(pid)} (pid {pid})"
    return ""


def _listening_inodes(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port, on any address."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        rows = (line.split() for line in read_text(table).splitlines()[1:])
        inodes |= {row[9] for row in rows if row[3] == _LISTEN and row[1].endswith(f":{port:04X}")}
    return inodes
