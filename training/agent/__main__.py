"""`python -m training.agent VERB …`: `follow` a run's agent on this host, started first where there
is none; or an errand."""

from __future__ import annotations

import gc
import os
import sys

from training.agent.errands import table

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from training.agent.times import Times


def main(
    argv: list[str] | None = None, times: Times | None = None, preload: tuple[str, ...] = ()
) -> int:
    """Follow until the journal has ended (0), input stays away (1), or the folder cannot be used
    (2); or do an errand.

    `times` are the usual ones, and `preload` the command of our own, where they are not given.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] != ["follow"]:
        return table.main(words)
    from training.agent.follower import follow  # of which an errand needs nothing
    from training.agent.options import parse
    from training.agent.ranks.launch import PRELOAD
    from training.agent.times import Times

    gc.enable()  # the launcher's program disables it, which makes all that is short a tenth faster
    options = parse(words[1:], os.umask(0o077))  # what an agent keeps is for its user's eyes only
    try:
        if options.found:
            os.makedirs(options.folder, exist_ok=True)
        os.chmod(options.folder, 0o700)
        os.chdir(options.folder)
        return follow(options, times or Times(), preload or PRELOAD)
    except OSError as error:
        print(  # noqa: T201
            f"the agent cannot use its folder {options.folder}: {error.strerror or error}",
            file=sys.stderr,
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
