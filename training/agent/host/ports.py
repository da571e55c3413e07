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
    """Bind a socket to the address and port, and listen; port 0 is any free one, and the address ""
    are all.

    Raises: PortError.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections of the run before may still be in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise PortError(_explain_error(address, port, error)) from error
    return listener


def _explain_error(address: str, port: int, error: Exception) -> str:
    port_text = f"port {port} on {address}" if address else f"port {port}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{port_text} is in use{_describe_holder(port)}"
    if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
        return f"{address} is not an address of this host"
    if isinstance(error, PermissionError):
        return f"{port_text}: permission denied, take one above 1023"
    return f"{port_text}: {error}"


def _describe_holder(port: int) -> str:
    """Name the process that listens on the port, such as " by python (pid 123)"; "" if this user
    cannot see it."""
    socket_links = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for pid in filter(str.isdigit, os.listdir("/proc")) if socket_links else ():
        if any(target in socket_links for _, target in open_files(pid)):
            return f" by {read_name(pid)} (pid {pid})"
    return ""


def _listening_inodes(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port, on any address."""
    inodes: set[str] = set()
    port_suffix = f":{port:04X}"  # the kernel writes addresses as HEX:HEX
    for table_path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_text(table_path).splitlines()[1:]:
            columns = line.split()
            is_listening = columns[3] == _LISTEN
            if is_listening and columns[1].endswith(port_suffix):
                inodes.add(columns[9])
    return inodes
