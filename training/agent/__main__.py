"""`python -m training.agent VERB …`: `follow` a run's agent on this host, started first where there is none; or an errand."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from training.agent import Options, Times, errands


def main(argv: list[str] | None = None, times: Times = Times(), preload: tuple[str, ...] = ()) -> int:  # noqa: B008
    """Follow until the journal has ended (0), input stays away (1), or the folder cannot be used (2); or do an errand.

    `preload` is the command of a preload other than our own.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] != ["follow"]:
        return errands.main(words)
    from training.agent.follower import follow  # of which an errand needs nothing
    from training.agent.launch import PRELOAD

    options = replace(_options(words[1:]), umask=os.umask(0o077))  # what an agent keeps is for its user's eyes only
    try:
        if options.found:
            os.makedirs(options.folder, exist_ok=True)
        os.chmod(options.folder, 0o700)
        os.chdir(options.folder)
        return follow(options, times, preload or PRELOAD)
    except OSError as error:
        print(f"the agent cannot use its folder {options.folder}: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 2


def _options(argv: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m training.agent follow", description=__doc__)
    parser.add_argument("--folder", required=True, help="where this host keeps the run's journal")
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--host", required=True, type=int, help="index of this host in the plan")
    parser.add_argument("--after", type=int, default=0, help="the last sequence number already known")
    parser.add_argument("--policy", choices=("stop", "keep"), default="stop", help="what becomes of a run without its operator")
    parser.add_argument("--route-to", default="", help="address to which Hello shall tell this host's route")
    parser.add_argument("--cwd", default="", help="where the ranks work (default: the home directory)")
    parser.add_argument("--no-found", dest="found", action="store_false", help="only come back to one that there is or was")
    given = parser.parse_args(argv)
    folder, cwd = os.path.abspath(os.path.expanduser(given.folder)), os.path.expanduser(given.cwd or "~")
    cwd = os.path.abspath(cwd)
    return Options(folder, given.run, given.host, given.after, given.policy == "keep", given.route_to, cwd, found=given.found)


if __name__ == "__main__":
    sys.exit(main())
