"""`python -m training.agent VERB …`: `follow` the agent of a run on this host, which is started if
there is none; `serve` the runs of a launcher one after another; or do a host command."""

from __future__ import annotations

import gc
import os
import sys

from training import agent
from training.agent.host_commands import command_table
from training.writing import write_all

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import NoReturn

    from training.agent.ranks.launch import Preload
    from training.agent.times import AgentTimes


def main(
    argv: list[str] | None = None, times: AgentTimes | None = None, preload: Preload = ()
) -> int:
    """Follow until the journal ends (0), input stays away (1), or the folder cannot be used (2);
    serve; or do a host command.

    `preload` forks ranks; else a program does that imports torch. `times` is for tests.
    """
    command_words = sys.argv[1:] if argv is None else argv
    verb = command_words[0] if command_words else ""
    if verb == "serve":
        _become_fork_server(imports_torch=command_words[1:] != ["scripts"])
    if verb != "follow":
        return command_table.main(command_words)
    from training.agent.follower import follow, reach_agent  # host commands need none of it
    from training.agent.options import parse_options
    from training.agent.ranks.launch import PRELOAD
    from training.agent.times import AgentTimes

    gc.enable()  # the bootstrap disables it, which makes short commands a tenth faster
    rank_umask = os.umask(0o077)  # only the user may read the agent's files
    options = parse_options(command_words[1:], rank_umask)
    try:
        if options.found:
            os.makedirs(options.folder, exist_ok=True)
        os.chmod(options.folder, 0o700)
        os.chdir(options.folder)
        connection = reach_agent(options, times or AgentTimes(), preload or PRELOAD)
    except OSError as error:
        _report_unusable_folder(options.folder, error)
        return _refuse(options.folder, error)
    try:
        return follow(connection, options, times or AgentTimes())
    except OSError as error:
        return _refuse(options.folder, error)


def _refuse(folder: str, error: OSError) -> int:
    reason = error.strerror or error
    print(f"the agent cannot use its folder {folder}: {reason}", file=sys.stderr)  # noqa: T201
    return 2


def _report_unusable_folder(folder: str, error: OSError) -> None:
    """Write to stdout, before the marker, which error keeps the agent from its folder."""
    import contextlib
    import errno

    from training.agent.layout import workdir_of
    from training.wire.jsonl import dumps

    if error.errno:
        error_name = errno.errorcode.get(error.errno, "")
        error_facts = [workdir_of(folder), error_name, error.strerror or str(error)]
        line = f"{agent.SPOKEN}unusable {dumps(error_facts)}\n"
        with contextlib.suppress(OSError):  # the launcher is gone
            write_all(sys.stdout.fileno(), line.encode(errors="surrogatepass"))


def _become_fork_server(*, imports_torch: bool) -> NoReturn:
    """Read the variables of the host's ranks from stdin, and execute `training.fork_server`."""
    from training.agent.ranks.launch import CODE
    from training.wire.jsonl import load
    from training.wire.line_cutter import read_line

    write_all(sys.stdout.fileno(), agent.MARKER)
    rank_variables = load(read_line(0)) or {}
    server_environment = {**os.environ, "PYTHONUNBUFFERED": "1", **rank_variables}
    server_code = (
        f"import sys; sys.path[:] = [{CODE!r}] + [path for path in sys.path if path]; "
        "from training.fork_server import serve; "
        f"sys.exit(serve(code_changed={agent.code_changed}, imports_torch={imports_torch}))"
    )
    # A new program instead of a call: some variables count only when a process starts.
    os.execve(sys.executable, [sys.executable, "-c", server_code], server_environment)


if __name__ == "__main__":
    sys.exit(main())
