"""Says in words why an agent ended."""

from __future__ import annotations

from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded

QUIET_ENDS = (EndReason.CLOSED, EndReason.ALL_ENDED)
"""The ends of an agent that are no failure."""
STOPPING_ENDS = (EndReason.OPERATOR_GONE, EndReason.LEASE_EXPIRED)
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
"""The word between the sentence and a detail that is a time."""


def explain_end(end: AgentEnded) -> str:
    """Return why the agent ended: "the agent died: SIGKILL; could not be killed: pid 7"."""
    end_text = _SENTENCES[end.reason]
    if end.detail:
        end_text += _BEFORE_DETAIL.get(end.reason, ": ") + end.detail
    if end.left:
        end_text += f"; could not be killed: pid {', '.join(map(str, end.left))}"
    return end_text


def describe_end(end: AgentEnded) -> str:
    """Return what the agent did: "stopped: its launcher is gone", or why it ended."""
    end_text = explain_end(end)
    return f"stopped: {end_text}" if end.reason in STOPPING_ENDS else end_text
