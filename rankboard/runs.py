"""Runs: launched, attached to, or loaded from their records."""

from __future__ import annotations

import atexit
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rankboard import commands, event_stream
from rankboard.commands import FlagValue, make_flags
from rankboard.errors import Mistake, RefusedError, WaitTimeout
from rankboard.event_stream import EventStream
from rankboard.outcome import Outcome, read_outcome
from rankboard.progress import KINDS, Event, Progress, RankProgress
from rankboard.progress_table import draw_run

if TYPE_CHECKING:
    from rankboard.columns import Columns

FRESH = 1.0
"""Seconds for which what was read of a live run counts, where nobody here follows it."""
REFUSED_KEYWORDS = {
    "ascii": "nothing is drawn here",
    "detach": "launch with on_disconnect='keep', then leave the run with close()",
    "dry_run": "use rankboard --dry-run --json",
    "form": "nothing is drawn here",
    "help": "use rankboard --help all",
    "info": "use rankboard --info",
    "json": "a run always tells its events as JSON",
    "run": "a run is always launched without the dashboard",
    "verbose": "see Run.events()",
    "version": "use rankboard --version",
}
"""Flags of `rankboard` that mean nothing here, and what to do instead."""


def launch(
    *,
    script: str | Sequence[str | os.PathLike[str]] | None = None,
    hosts: str | os.PathLike[str] | None = None,
    local: int | None = None,
    **flags: FlagValue,
) -> Run:
    """Launch a run, and return once it has a name.

    `script` is a program of yours with its arguments, as a list or as a line of a shell; without
    it, rankboard trains the job that the flags describe. `hosts` is the hosts file, `local` a
    number of ranks on this machine. Any other flag of `rankboard` is a keyword: `batch_size=64` is
    `--batch-size 64`, False is `--no-…`, and a list repeats the flag.

    Raises: RefusedError, with all mistakes; CommandError.
    """
    mistakes = [
        Mistake(f"--{name.replace('_', '-')}", problem="launch() does not take it", hint=hint)
        for name, hint in REFUSED_KEYWORDS.items()
        if name in flags
    ]
    if mistakes:
        raise RefusedError(mistakes)
    words = ["--run", "--json", *make_flags({"hosts": hosts, "local": local, **flags})]
    if script is not None:
        line = shlex.split(script) if isinstance(script, str) else script
        words += ["--", *(os.fspath(word) for word in line)]
    run = _follow(words)
    _launched_runs.append(run)
    return run


def attach(
    run: str,
    *,
    hosts: str | os.PathLike[str] | None = None,
    runs_dir: str | os.PathLike[str] = "runs",
    **flags: FlagValue,
) -> Run:
    """Attach to a run that was left, as `rankboard attach` does: it is recorded here again.

    `run` is what every command takes: a name, the beginning of one, a path, or `last`. More
    keywords are the flags of `rankboard attach`.

    Raises: RefusedError; CommandError.
    """
    all_flags = make_flags({"hosts": hosts, "runs_dir": runs_dir, **flags})
    return _follow(["attach", "--run", "--json", *all_flags, run])


def load(run: str | os.PathLike[str], *, runs_dir: str | os.PathLike[str] = "runs") -> Run:
    """Load a run that is recorded here, ended or live. No host is asked.

    `run` is its name, the beginning of one, `last`, or its folder. Raises: RefusedError.
    """
    return Run(Progress(_read_record(find_folder(run, runs_dir))))


def find_folder(run: str | os.PathLike[str] | Run, runs_dir: str | os.PathLike[str]) -> Path:
    """Return the folder of a run that is given by what people call it."""
    if isinstance(run, Run):
        return run.folder
    path = Path(run)
    # A text without a slash is a name; commands take a path as certain, and ask no host.
    is_name = isinstance(run, str) and os.sep not in run
    return Path(runs_dir, path).absolute() if is_name else path.absolute()


class Run:
    """A run: its events, its steps, and how it ends.

    As a context manager it is let go of at the end, see `close`.
    """

    def __init__(self, progress: Progress, stream: EventStream | None = None) -> None:
        """`stream` is the command that leads the run; None if another one does, or none."""
        assert progress.run
        self.name: str = progress.run["run"]
        self.folder = Path(progress.run["folder"])
        """Where it is recorded."""
        self.plan: dict[str, Any] = progress.run["plan"]
        """What runs where: `job` or `script`, `world_size`, `ranks` and `policy`."""
        self._progress = progress
        self._stream = stream
        self._leads = stream is not None
        self._read_at = time.monotonic()

    # How it ends

    @property
    def state(self) -> str:
        """Return `running`, or the verdict; `left` if nobody here has seen the end."""
        outcome = self.outcome
        if outcome:
            return str(outcome.verdict)
        if self._stream:
            return "left" if self._stream.has_ended else "running"
        return "running" if self._progress.is_live else "left"

    @property
    def outcome(self) -> Outcome | None:
        """Return how the run has ended; None if that is not known."""
        self._refresh()
        summary = self._progress.summary
        return read_outcome(summary) if summary and summary["verdict"] else None

    def wait(self, timeout: float | None = None) -> Outcome:
        """Wait for the end and return how the run has ended.

        Ctrl+C interrupts the wait; the run goes on. Raises: WaitTimeout, after `timeout` seconds;
        CommandError, if the launcher died.
        """
        stream = self._follow()
        if stream:
            if not stream.wait(timeout):
                raise WaitTimeout(self.name, timeout or 0.0)
            if self._progress.summary is None:
                raise stream.make_error()
        assert self._progress.summary
        return read_outcome(self._progress.summary)

    def stop(self, *, now: bool = False) -> Outcome:
        """Stop the run on all its hosts and return how it has ended.

        `now`: kill the ranks without a grace period. `unconfirmed` of the outcome names hosts on
        which ranks may still run. Raises: RefusedError; CommandError.
        """
        outcome = self.outcome
        if outcome and not outcome.unconfirmed:
            return outcome
        if self._leads and self._stream and not self._stream.has_ended:
            self._stream.ask(event_stream.STOP_NOW if now else event_stream.STOP)
            return self.wait()
        ended_command = commands.call(
            ["stop", "--json", *make_flags({"now": now or None}), *self._words]
        )
        summary = ended_command.get_object()
        self._progress.take(summary)
        return read_outcome(summary)

    def close(self) -> None:
        """Let go of the run. One that was launched here is stopped, unless it was launched with
        `on_disconnect="keep"`; any other one goes on."""
        if self._stream:
            self._stream.end()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What happens in it

    @property
    def ranks(self) -> list[RankProgress]:
        """Return where each rank is now."""
        self._refresh()
        return self._progress.list_ranks()

    @property
    def alerts(self) -> list[str]:
        """Return what is wrong now, such as a rank that all others wait for."""
        self._refresh()
        return self._progress.list_alerts()

    def events(self, *kinds: str) -> Iterator[Event]:
        """Yield the events of the run from its beginning, and follow it to its end.

        docs/reference/events.md lists them; `kinds`, such as "step", yields only these.
        """
        return commands.iterate(["events", *make_flags({"event": kinds}), *self._words])

    def steps(self) -> Columns:
        """Return the steps of all ranks so far: a row for each rank and step, in this order."""
        from rankboard.columns import make_empty_steps

        return self._read_tables("steps.npy").get("steps") or make_empty_steps()

    def tables(self) -> dict[str, Columns]:
        """Return all tables of the run so far that have rows, by their names.

        They are those of `rankboard export`: `steps`, `mean` (over ranks), `evaluations`, `epochs`,
        `metrics`, `checkpoints`, `host_usage`, `rank_usage` and `gpu_usage`.
        """
        return self._read_tables("*.npy")

    def _read_tables(self, pattern: str) -> dict[str, Columns]:
        """Return the tables whose files have such names."""
        from rankboard.columns import read_table

        with TemporaryDirectory(prefix="rankboard-") as folder:
            flags = make_flags({"to": "numpy", "json": True, "out": folder})
            path = commands.call(["export", *flags, *self._words]).get_object()["path"]
            return {file.stem: read_table(file) for file in sorted(Path(path).glob(pattern))}

    # How it looks

    def __repr__(self) -> str:
        return f"<Run {self.name}: {self.state}>"

    def _repr_html_(self) -> str:
        return draw_run(self.name, self.state, self.ranks, self.alerts, self.outcome)

    def watch(self, interval: float = 1.0) -> Outcome:
        """Show the table of the run in a notebook, renewed every `interval` seconds to the end.

        Ctrl+C ends the watching; the run goes on.
        """
        display = import_module("IPython.display").display
        shown = display(self, display_id=True)
        outcome = None
        while outcome is None:
            with suppress(WaitTimeout):
                outcome = self.wait(interval)
            if shown:  # outside of a notebook, IPython only prints the run
                shown.update(self)
        return outcome

    # Processes

    @property
    def _words(self) -> list[str]:
        """The words that name the run to a command for certain."""
        return [*make_flags({"runs_dir": self.folder.parent}), str(self.folder)]

    def _follow(self) -> EventStream | None:
        """Return the command that follows the run to its end; start one if there is none. None if
        the end is known."""
        if self._stream and not self._stream.has_ended:
            return self._stream
        if self.outcome:
            return None
        words = ["events", *make_flags({"event": KINDS}), *self._words]
        self._leads = False
        self._progress.summary = None  # that of a run that goes on
        self._stream = EventStream(words, self._progress.take)
        return self._stream

    def _refresh(self) -> None:
        """Read the record again, if the run may be live and nobody here follows it."""
        summary = self._progress.summary
        has_ended = summary is not None and summary["verdict"] is not None
        is_fresh = time.monotonic() < self._read_at + FRESH
        if self._stream or has_ended or is_fresh:
            return
        for event in _read_record(self.folder):
            self._progress.take(event)
        self._read_at = time.monotonic()


def _read_record(folder: Path) -> Sequence[Event]:
    """Read the first and the last event of a run that is recorded here, without following it.

    Raises: RefusedError; CommandError.
    """
    flags = make_flags({"runs_dir": folder.parent, "event": ("run", "summary")})
    ended_command = commands.call(["events", "--no-follow", *flags, str(folder)])
    ended_command.get_object()
    return ended_command.objects


def _follow(words: Sequence[str]) -> Run:
    """Start a command that leads a run; return it once it has a name."""
    progress = Progress()
    stream = EventStream(words, progress.take)
    try:
        stream.wait_for_first()
    except BaseException:
        stream.end()
        raise
    if progress.run is None:
        stream.wait()
        raise stream.make_error()
    return Run(progress, stream)


_launched_runs: list[Run] = []


def _say_what_is_stopped() -> None:
    """Say at the exit of the interpreter which runs end with it, that nobody waited for."""
    for run in _launched_runs:
        if run.state == "running" and not run.plan["policy"]["keep"]:
            sys.stderr.write(
                f"rankboard: {run.name} is stopped, as this program ends: wait() waits for a run, "
                "and one launched with on_disconnect='keep' goes on\n"
            )


atexit.register(_say_what_is_stopped)  # called before what is registered earlier: the end
