"""`python -m training.agent VERB …`: `follow` the agent of a run on this host, which is started if
there is none; `serve` the runs of a launcher one after another; or run an errand."""

from __future__ import annotations

import gc
import os
import sys

from training.agent.errands import table

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from training.agent.ranks.launch import Preload
    from training.agent.times import Times


def main(argv: list[str] | None = None, times: Times | None = None, preload: Preload = ()) -> int:
    """Follow until the journal ends (0), input stays away (1), or the folder cannot be used (2);
    serve; or run an errand.

    `preload`: what forks ranks; else the program that imports torch. `times` is for tests.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["serve"]:
        from training.agent.warm import become_server

        become_server()
    if words[:1] != ["follow"]:
        return table.main(words)
    from training.agent.follower import follow  # an errand needs none of it
    from training.agent.options import parse
    from training.agent.ranks.launch import PRELOAD
    from training.agent.times import Times

    gc.enable()  # the bootstrap disables it, which makes short errands a tenth faster
    options = parse(words[1:], os.umask(0o077))  # only the user may read the agent's files
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
