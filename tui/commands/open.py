"""`rankboard open`: look at a recorded run again, and replay it; or at log files of any run."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remote.record.find import find, runs_dir_of
from tui.app import show_run as front
from tui.flags.common import RUNS, Ascii, HostsFile, RunsDir
from tui.flags.run_completion import complete_runs_and_files
from tui.kit.exit import UsageError, refusing

SUFFIXES = (".err", ".log", ".out", ".txt")
"""Names that end so are names of log files, and hosts are not asked for runs of these names."""


def open(
    names: Annotated[
        list[str],
        Parameter(
            name="RUN|FILE...",
            help="the run: its name, its beginning, or last for the newest run; or log files, one "
            "per rank",
            completer=complete_runs_and_files,
        ),
    ],
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), help="show also what is written to the log files")
    ] = False,
    hosts: HostsFile = None,
    ascii_only: Ascii = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Open a run: an ended one with a time slider that replays it, a live one as attach does.

    The replay begins at the end of the run. Space plays and pauses, < and > change the speed; the
    arrow keys, page up, page down, home and end move through the run. A live run that another
    rankboard records is watched: it is not changed.

    Log files of any program, also of one that rankboard has not started, are read as a run with a
    rank for each file; tables, JSON and event files of TensorBoard as well.

    Examples:
      rankboard open last
      rankboard open 20261120-0930
      rankboard open slurm-123_*.out --follow
    """
    with front.silence_terminal():
        with refusing():
            front.check_terminal()
            log_files = _find_log_files(names, follow, runs_dir)
            if log_files:
                exit_code = _show_files(log_files, follow)
        if not log_files:
            exit_code = _show_run(names[0], hosts, runs_dir)
    raise SystemExit(exit_code)


def _show_run(run: str, hosts: Path | None, runs_dir: Path) -> int:
    with refusing():
        from tui.home.history import History  # after the terminal is quiet: it takes a moment

        history = History(runs_dir_of(run, runs_dir), hosts)
        session = history.open(run)
    return front.show_opened(history.launcher(session.plan), session)


def _find_log_files(names: Sequence[str], follow: bool, runs_dir: Path) -> list[Path]:
    """The log files that are named; none where it is a run. Raises: PlanError, UsageError."""
    existing_files = [Path(name) for name in names if Path(name).is_file()]
    missing_names = [name for name in names if not Path(name).is_file()]
    if missing_names and (existing_files or follow or len(names) > 1):
        raise UsageError(
            f"{missing_names[0]} is not a file: give one run, or log files"
            + (" to follow" if follow else "")
        )
    is_log_name = bool(missing_names) and Path(missing_names[0]).suffix in SUFFIXES
    if is_log_name and not find(missing_names[0], runs_dir):
        raise UsageError(f"{missing_names[0]}: there is no such file")
    return existing_files


def _show_files(paths: Sequence[Path], follow: bool) -> int:
    """Show log files until the user quits. Raises: UsageError; PlanError; RunFolderError."""
    from remote.record.log_files import LogFiles, OpenedFiles
    from tui.app.watch_app import WatchApp

    with tempfile.TemporaryDirectory(prefix="rankboard-") as folder:
        try:
            log_files = LogFiles(paths, Path(folder))
            log_files.read()
        except OSError as error:
            raise UsageError(f"cannot read the log files: {error}") from error
        has_left = threading.Event()
        reader_thread = threading.Thread(
            target=log_files.follow, args=(has_left,), name="files", daemon=True
        )
        if follow:
            reader_thread.start()
        else:
            log_files.close()
        app = WatchApp(OpenedFiles(log_files, follows=follow))
        try:
            app.show()
        finally:
            # Also if the app fails: the folder below the reader is removed next.
            has_left.set()
            if follow:
                reader_thread.join()
        return app.exit_code
