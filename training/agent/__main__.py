"""`python -m training.agent VERB …`: `follow` the agent of a run on this host, which is started if
there is none; `serve` the runs of a launcher one after another; or run an errand."""

from __future__ import annotations

import gc
import os
import sys

from training.agent import SPOKEN
from training.agent.host_commands import command_table
from training.writing import write_all

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from training.agent.ranks.launch import Preload
    from training.agent.times import AgentTimes


def main(
    argv: list[str] | None = None, times: AgentTimes | None = None, preload: Preload = ()
) -> int:
    """Follow until the journal ends (0), input stays away (1), or the folder cannot be used (2);
    serve; or run an errand.

    `preload`: what forks ranks; else the program that imports torch. `times` is for tests.
    """
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["serve"]:
        from training.agent.warm import become_server

        become_server()
    if words[:1] != ["follow"]:
        return command_table.main(words)
    from training.agent.follower import follow, reach  # an errand needs none of it
    from training.agent.options import parse
    from training.agent.ranks.launch import PRELOAD
    from training.agent.times import AgentTimes

    gc.enable()  # the bootstrap disables it, which makes short errands a tenth faster
    options = parse(words[1:], os.umask(0o077))  # only the user may read the agent's files
    try:
        if options.found:
            os.makedirs(options.folder, exist_ok=True)
        os.chmod(options.folder, 0o700)
        os.chdir(options.folder)
        agent = reach(options, times or AgentTimes(), preload or PRELOAD)
    except OSError as error:
        _tell_launcher(options.folder, error)
        return _refuse(options.folder, error)
    try:
        return follow(agent, options, times or AgentTimes())
    except OSError as error:
        return _refuse(options.folder, error)


def _refuse(folder: str, error: OSError) -> int:
    why = error.strerror or error
    print(f"the agent cannot use its folder {folder}: {why}", file=sys.stderr)  # noqa: T201
    return 2


def _tell_launcher(folder: str, error: OSError) -> None:
    """Say on stdout, before the marker, which error keeps the agent from its folder."""
    import contextlib
    import errno

    from training.agent.layout import workdir_of
    from training.wire.jsonl import dumps

    if error.errno:
        name = errno.errorcode.get(error.errno, "")
        facts = [workdir_of(folder), name, error.strerror or str(error)]
        line = f"{SPOKEN}unusable {dumps(facts)}\n"
        with contextlib.suppress(OSError):  # the launcher is gone
            write_all(sys.stdout.fileno(), line.encode(errors="surrogatepass"))


if __name__ == "__main__":
    sys.exit(main())
