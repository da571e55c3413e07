"""Where this rank stands among the others, read from the environment variables that torchrun (and
our agent) sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

LISTEN_FD = "RANKBOARD_LISTEN_FD"
"""Number of the listening socket that the agent bound for rank 0's store; absent under torchrun."""
FOLDER = "RANKBOARD_FOLDER"
"""The run's folder on this host, which the agent keeps; absent under torchrun."""
COPIES = "RANKBOARD_COPIES"
"""1 where the run may go on without some of its hosts; otherwise absent."""

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""The file where a user's own program may say what it failed of, as `record` of torch does."""
WATCH = "RANKBOARD_WATCH"
"""1 where a user's own program is watched; see `training.watch`."""
EVENTS_FD = "RANKBOARD_EVENTS_FD"
"""Number of the pipe to which its watch writes; then `NUMBER:PID:INODE`, once process PID has it:
workers that it starts open it there."""
PROCESS = "RANKBOARD_PROCESS"
"""`NUMBER/COUNT`: which of the ranks that rankboard has started the program is, and how many these
are. The program may change RANK and WORLD_SIZE for what it starts."""


@dataclass(frozen=True)
class Place:
    """The place of a rank. `group_rank` is the number of its host, `folder` the run's folder on the
    host ("" without an agent). `copies`: each host keeps what the run needs to go on without the
    others.

    Without RANK in the environment the rank is 0 of 1.
    """

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    group_rank: int = 0
    master_address: str = ""
    master_port: int = 0
    listen_fd: int = -1
    folder: str = ""
    copies: bool = False

    @classmethod
    def read(cls, env: Mapping[str, str] = os.environ) -> Place:
        """Read the place from an environment."""
        if "RANK" not in env:
            return cls()
        return cls(
            rank=int(env["RANK"]),
            local_rank=int(env["LOCAL_RANK"]),
            world_size=int(env["WORLD_SIZE"]),
            local_world_size=int(env["LOCAL_WORLD_SIZE"]),
            group_rank=int(env.get("GROUP_RANK", 0)),
            master_address=env["MASTER_ADDR"],
            master_port=int(env["MASTER_PORT"]),
            listen_fd=int(env.get(LISTEN_FD, -1)),
            folder=env.get(FOLDER, ""),
            copies=env.get(COPIES) == "1",
        )
