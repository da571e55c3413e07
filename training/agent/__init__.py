"""The agent: one small program per host that starts and watches the ranks of the host, and writes
a journal of everything they report.

It has three processes. A launcher starts the *follower* (`follower`), which streams the journal to
the launcher and passes its commands to the agent. The first follower forks the *guard* (`guard`),
which forks the *agent* (`server`) and kills all that the agent leaves. What the agent does next is
decided in `decide`, without a clock, a process or a socket. Standard library only, Python >= 3.10;
psutil is used if there is no /proc.
"""

from __future__ import annotations

SPOKEN = "rankboard-deploy 1 "
"""Begins a line for the launcher before the marker, as in `remote.transport.bootstrap.first`."""
MARKER = b"rankboard-agent 1\n"
"""The first line of a follower's stdout. The output of a login shell comes before it, records come
after it."""

IDLE = b"\0"
"""What a fork server writes to stdout when the follower of a run has exited. No record contains
it: JSON escapes it."""

code_changed = False
"""Whether the code on this host differed from what was sent, and was replaced at this start.
`remote.transport.bootstrap` sets it."""

WHOLE = {"whole": True}
"""The last line of the answer of a host command, as JSON: the answer is complete."""
