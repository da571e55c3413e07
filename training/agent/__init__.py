"""The agent: on each host one small program that starts and watches this host's ranks and keeps a journal of all they say.

Three processes. The mortal *follower* (`follower`) is what a launcher starts: it streams the journal out and passes command
lines in. The first one forks the *guard* (`guard`), which forks the *agent* (`server`) and sees to it that nothing outlives it.
Standard library only, Python >= 3.10; psutil is used where there is no /proc.
"""

from __future__ import annotations

from dataclasses import dataclass

MARKER = b"rankboard-agent 1\n"
"""The first line of a follower's stdout. What stands before it is a login shell's, what comes after it are records."""

ALL_ENDED = "all ranks have ended"
"""The reason of `Ended` of a run that was kept without an operator to its end."""
BOTH_GONE = "agent and guard are gone"
"""How the reason of `Ended` starts that a follower wrote, since neither of them could: it does not know what they have left."""
OPERATOR_GONE = "stopped: operator gone"
"""How the reason of `Ended` starts when a run that was not to be kept has lost its operator."""


@dataclass(frozen=True)
class Options:
    """What an agent is told on its command line. `folder` is the run's on this host, `cwd` where its ranks work.

    `found`: it is begun where there is none. `umask` is what its ranks begin with, -1 the agent's own.
    """

    folder: str
    run: str
    host: int
    after: int = 0
    keep: bool = False
    route_to: str = ""
    cwd: str = "~"
    umask: int = -1
    found: bool = True


@dataclass(frozen=True)
class Times:
    """All the times of the agent, in seconds.

    `tick`: between two samples. `gather`: between two turns of reading what ranks print.
    `reconnect`: how long nobody may be connected. `lease`: how long no command may come.
    `input`: after how long without any a follower exits. `grace`: from TERM to KILL. `last`: for what a KILL does not end.
    `restart`: how long a run that has failed waits for somebody who starts it again.
    """

    tick: float = 1.0
    gather: float = 0.1
    reconnect: float = 2.0
    lease: float = 60.0
    input: float = 60.0
    grace: float = 2.0
    last: float = 8.0
    restart: float = 86400.0
