"""The times of an agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """All the times of an agent and its follower, in seconds.

    `tick`: between two samples. `gather`: between two turns of reading what ranks print.
    `reconnect`: how long nobody may be connected. `lease`: how long no command may come. `input`:
    after how long without any a follower exits. `grace`: from TERM to KILL. `last`: for what a KILL
    does not end. `restart`: how long a run that has failed waits for somebody who starts it again.
    """

    tick: float = 1.0
    gather: float = 0.1
    reconnect: float = 2.0
    lease: float = 60.0
    input: float = 60.0
    grace: float = 2.0
    last: float = 8.0
    restart: float = 86400.0
