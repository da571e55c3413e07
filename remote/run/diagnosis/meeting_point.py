"""Finds where the ranks of a script meet, and which hosts cannot connect to it. Pure."""

from __future__ import annotations

from remote.format import listed
from remote.run.state.host_state import Hosts
from remote.run.state.rank_state import Ranks
from remote.run.state.script_rank import ScriptRank
from remote.sanitise import cut

LONGEST_ERROR = 60
"""Characters of an error that are shown."""


def find_meeting_address(ranks: Ranks) -> tuple[str, int] | None:
    """Return where all ranks of a script wait for each other, though none is missing; None if they
    do not, or it is not known."""
    script_ranks = [rank for rank in ranks if isinstance(rank, ScriptRank)]
    living = [rank for rank in script_ranks if not rank.exited]
    # After the start, the first rank has no address, and the others need not be asked.
    address = living[0].meeting_address if living else None
    if not address or any(rank.meeting_address != address for rank in living):
        return None
    has_met = any(rank.meetings != 1 for rank in script_ranks)
    return None if has_met else address


def describe_failed_connections(ranks: Ranks, hosts: Hosts) -> str:
    """Say which hosts cannot connect to where the ranks meet; "" if all can.

    Such as "node2 cannot connect to 10.10.1.1:9955: Connection refused".
    """
    meeting_address = find_meeting_address(ranks)
    failures = {
        host.index: connection.error
        for host in hosts
        for connection in host.connected
        if (connection.address, connection.port) == meeting_address and connection.error
    }
    if not meeting_address or not failures:
        return ""
    host_names = listed([hosts[index].name for index in failures])
    if len(failures) == len(hosts) > 1:
        host_names = f"all {len(hosts)} hosts"
    address, port = meeting_address
    error = cut(next(iter(failures.values())), LONGEST_ERROR)
    return f"{host_names} cannot connect to {address}:{port}: {error}"
