"""The command line of an agent."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from training.agent.layout import expand_path


@dataclass(frozen=True)
class AgentOptions:
    """The options of an agent."""

    folder: str
    """The folder of the run on this host."""
    run: str
    host: int
    after: int = 0
    """The number of the last record that the launcher has."""
    keep: bool = False
    route_to: str = ""
    cwd: str = "~"
    """The working directory of the ranks."""
    umask: int = -1
    """The umask of the ranks; -1 is the agent's own."""
    found: bool = True
    """Start an agent if there is none."""
    needs: str = ""
    """What the job needs of the host, as JSON."""


def parse_options(words: Sequence[str], umask: int) -> AgentOptions:
    """Return the options of the verb `follow`, with the umask of the ranks. Exit if they are
    wrong."""
    given = vars(_parser().parse_args(words))
    given["cwd"] = expand_path(given["cwd"] or "~")
    is_kept = given.pop("policy") == "keep"
    return AgentOptions(**given, keep=is_kept, umask=umask)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.agent follow", description=__doc__)
    parser.add_argument(
        "--folder", required=True, type=expand_path, help="the folder of the run on this host"
    )
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--host", required=True, type=int, help="index of this host in the plan")
    parser.add_argument(
        "--after",
        type=int,
        default=0,
        help="number of the last record that the launcher has",
    )
    parser.add_argument(
        "--policy",
        choices=("stop", "keep"),
        default="stop",
        help="what happens to a run whose launcher disconnects",
    )
    parser.add_argument(
        "--route-to", default="", help="address for which Hello reports the route of this host"
    )
    parser.add_argument(
        "--needs", default="", help="what Hello reports for the job: see training.agent.host.needs"
    )
    parser.add_argument(
        "--cwd", default="", help="working directory of the ranks (default: the home directory)"
    )
    parser.add_argument(
        "--no-found",
        dest="found",
        action="store_false",
        help="fail if the run has no agent and no journal here",
    )
    return parser
