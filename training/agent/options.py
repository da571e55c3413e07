"""What an agent is told on its command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """What an agent is told on its command line. `folder` is the run's on this host, `cwd` where
    its ranks work.

    `found`: it is begun where there is none. `needs`: what the job needs of its host, as JSON.
    `umask` is what its ranks begin with, -1 the agent's own.
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
    needs: str = ""


def parse(words: Sequence[str], umask: int) -> Options:
    """The options of `follow`, given with the umask that the ranks begin with. Ends the program
    where they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m training.agent follow", description=__doc__)
    parser.add_argument("--folder", required=True, help="where this host keeps the run's journal")
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--host", required=True, type=int, help="index of this host in the plan")
    parser.add_argument(
        "--after", type=int, default=0, help="the last sequence number already known"
    )
    parser.add_argument(
        "--policy",
        choices=("stop", "keep"),
        default="stop",
        help="what becomes of a run without its operator",
    )
    parser.add_argument(
        "--route-to", default="", help="address to which Hello shall tell this host's route"
    )
    parser.add_argument(
        "--needs", default="", help="what Hello shall tell of: see training.agent.host.needs"
    )
    parser.add_argument(
        "--cwd", default="", help="where the ranks work (default: the home directory)"
    )
    parser.add_argument(
        "--no-found",
        dest="found",
        action="store_false",
        help="only come back to one that there is or was",
    )
    given = parser.parse_args(words)
    folder, cwd = (
        os.path.abspath(os.path.expanduser(given.folder)),
        os.path.abspath(os.path.expanduser(given.cwd or "~")),
    )
    keep = given.policy == "keep"
    return Options(
        folder,
        given.run,
        given.host,
        given.after,
        keep,
        given.route_to,
        cwd,
        umask,
        given.found,
        given.needs,
    )
