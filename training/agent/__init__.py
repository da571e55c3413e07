"""The agent: on each host one small program that starts and watches this host's ranks and keeps a
journal of all they say.

Three processes. The mortal *follower* (`follower`) is what a launcher starts: it streams the
journal out and passes command lines in. The first one forks the *guard* (`guard`), which forks the
*agent* (`server`) and sees to it that nothing outlives it. Standard library only, Python >= 3.10;
psutil is used where there is no /proc.
"""

from __future__ import annotations

MARKER = b"rankboard-agent 1\n"
"""The first line of a follower's stdout. What stands before it is a login shell's, what comes after
it are records."""

code_changed = False
"""Whether this host's code was not as it had been sent, and has been replaced at this start;
`remote.transport.bootstrap` sets it."""

WHOLE = {"whole": True}
"""The last line of an errand's answer, as JSON: nothing before it is missing."""
