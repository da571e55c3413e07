"""Why an agent ended, in words."""

from __future__ import annotations

from training.wire.enums import EndReason
from training.wire.events import AgentEnded

QUIET = (EndReason.CLOSED, EndReason.ALL_ENDED)
"""The ends of an agent that are no failure."""
STOPPED = (EndReason.OPERATOR_GONE, EndReason.LEASE_EXPIRED)
"""The ends of an agent that stopped its ranks without a launcher."""

_SENTENCES = {
    EndReason.CLOSED: "closed",
    EndReason.ALL_ENDED: "all ranks have ended",
    EndReason.NO_LAUNCHER: "no launcher came back to start its ranks",
    EndReason.OPERATOR_GONE: "its launcher is gone",
    EndReason.LEASE_EXPIRED: "its launcher is gone, no sign of life",
    EndReason.TERMINATED: "the agent was told to terminate (SIGTERM)",
    EndReason.GUARD_DIED: "the guard died",
    EndReason.DISK_FULL: "the disk is full",
    EndReason.AGENT_DIED: "the agent died",
    EndReason.ABANDONED: "agent and guard are gone: the host restarted, or both were killed",
    EndReason.UNKNOWN: "the agent ended for a reason that this version does not know",
}
_BEFORE_DETAIL = {EndReason.LEASE_EXPIRED: " for ", EndReason.NO_LAUNCHER: " within "}
"""What stands between the sentence and the detail, where that is a time."""


def why(end: AgentEnded) -> str:
    """Why the agent ended: "the agent died: SIGKILL; could not be killed: pid 7"."""
    between = _BEFORE_DETAIL.get(end.reason, ": ")
    detail = f"{between}{end.detail}" if end.detail else ""
    left = f"; could not be killed: pid {', '.join(map(str, end.left))}" if end.left else ""
    return f"{_SENTENCES[end.reason]}{detail}{left}"


def describe(end: AgentEnded) -> str:
    """What the agent did: "stopped: its launcher is gone", or why it ended."""
    return f"stopped: {why(end)}" if end.reason in STOPPED else why(end)
