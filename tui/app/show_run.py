"""The two ways to show a session: as lines, or in the dashboard. Both return the exit code."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.cluster.hosts import Cluster
from remote.launch import Launcher
from remote.plan.plan import Plan, PlanError, Policy, Script
from remote.record import read
from remote.record.classification import format_last_report
from remote.record.layout import REPORT
from remote.record.lock import STOP
from remote.record.remarks import find_training_remarks
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from training.job import Job
from training.mistake import Mistake
from training.wire.events import Record
from tui.app.second_signal import Watched, ended_by_second_signal
from tui.kit import run_session as view
from tui.kit.exit import UsageError
from tui.kit.narrate import echo, narrate
from tui.run import outcome
from tui.run.unfetched_files import describe_unfetched_files

if TYPE_CHECKING:  # loaded once the terminal is quiet
    from remote.session.session import Session
    from tui.kit.replay import Replay
    from tui.run.printer import RunPrinter


UNHEARD = "nobody sends notifications until somebody attaches to the run with --notify"
"""What becomes of --notify once a run is left."""


@dataclass(frozen=True)
class LineOptions:
    """How a session is shown as lines."""

    json: bool = False
    leaves: bool = False
    """Ctrl+C leaves the run instead of stopping it."""
    detach: bool = False
    """Leave the run once it is under way."""
    quiet: bool = False
    """Print nothing of the output of the ranks, nor which command to repeat if ranks of a run that
    was stopped may still run: `rankboard stop` gives this advice itself."""
    verbose: bool = False
    """Print each step of the start."""
    is_kept: bool = True
    """The record stays."""
    kinds: Collection[str] | None = None
    """Of the objects that JSON prints; None: all."""


def watch(launcher: Launcher, session: Session, lines: LineOptions | None) -> int:
    """Show a session that was attached to, as `lines` or in the dashboard."""
    if lines is not None:
        return show_lines(launcher, session, lines)
    return show_opened(launcher, session)


def show_opened(launcher: Launcher, session: view.RunSession) -> int:
    """Show a session that was attached to, or a replay, in the dashboard."""
    hosts = Cluster(session.plan.run, session.plan.hosts)
    job = session.plan.job or Job()
    return show_dashboard(launcher, hosts, hosts, job, attached=session)


def find_ended(launcher: Launcher, plan: Plan) -> Replay | None:
    """Return the replay of a run of which nothing is left on its hosts; None if something may be.

    Raises: RunFolderError.
    """
    folder = launcher.runs_dir / plan.run
    if not read.verdict(folder):
        return None
    from tui.kit.replay import Replay

    replay = Replay(folder, plan)
    return replay if replay.state.is_settled else None


def show_ended(launcher: Launcher, replay: Replay) -> int:
    """Show the replay of a run that has ended, then say how it ended. Return its exit code."""
    check_terminal()
    last_state = replay.state  # a replay is at the end at first, and may be left anywhere
    code = show_opened(launcher, replay)
    print_end(last_state)
    narrate_record(launcher, last_state)
    if code or last_state.verdict is None:
        return code
    return last_state.verdict.value


def show_lines(launcher: Launcher, session: Session, options: LineOptions) -> int:
    """Print a session until it ends or is left."""
    with _steered_by_signals(session, leaves=options.leaves) as watched:
        return _print_session(launcher, session, options, watched)


def follow_silently(session: Session, is_left: Callable[[], bool]) -> None:
    """Follow a session that was attached to, until it ends or is left. Nothing is printed.

    Ctrl+C leaves it. `is_left` is asked several times a second; the session is left once it returns
    True.
    """
    with _steered_by_signals(session, leaves=True) as watched:
        for _ in session.batches():
            watched.answer()
            if is_left() and not session.detached:
                session.detach()


@contextmanager
def _steered_by_signals(session: Session, *, leaves: bool) -> Iterator[Watched]:
    """Let signals stop or leave the run (see `_handle_signals`), and a second one end this process
    where it hangs."""
    with ended_by_second_signal() as watched:
        watched.on_asked = lambda: watched.answer() if session.is_closing else None
        _handle_signals(session, leaves)
        yield watched


def _print_session(
    launcher: Launcher, session: Session, options: LineOptions, watched: Watched
) -> int:
    from tui.run.printer import run_printer  # the dashboard prints no lines

    folder = launcher.runs_dir / session.plan.run
    before = launcher.recorded(session.plan) if options.json and options.leaves else ()
    detach = options.detach
    # Every write to a terminal that is gone fails: the run is left or stopped then, and the session
    # still has to end.
    with (
        suppress(OSError),
        run_printer(
            session.state,
            options.json,
            folder,
            before=before,
            quiet=options.quiet,
            verbose=options.verbose,
            kinds=options.kinds,
        ) as show,
    ):
        for records in session.batches():
            watched.answer()
            _show_batch(show, records, session, options.leaves)
            if detach and session.is_under_way:
                session.detach()
                detach = False
        show.end(session.state)
        if not session.detached and options.is_kept:
            narrate_record(launcher, session.state)
        finish_notifications(launcher, session.state)
        if not options.quiet:
            narrate_unconfirmed(session.state)
    if session.state.verdict:
        return session.state.verdict.value
    return Verdict.LOST.value if session.cut_off else 0


def _handle_signals(session: Session, leaves: bool) -> None:
    """Let Ctrl+C stop or leave the run, and SIGQUIT stop it at once.

    A run that is kept survives the end of the terminal or of this machine.
    """

    def handle(number: int, _: object) -> None:
        if number == signal.SIGINT:
            is_left = leaves
        else:
            is_from_system = number in (signal.SIGHUP, signal.SIGTERM)
            is_left = is_from_system and (leaves or session.keep)
        if is_left:
            session.detach()
        else:
            reason = "rankboard stop" if number == STOP else outcome.describe_signal(number)
            session.stop(reason, now=number == signal.SIGQUIT)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, STOP):
        signal.signal(number, handle)


def _show_batch(show: RunPrinter, records: list[Record], session: Session, leaves: bool) -> None:
    """Show a batch; once nobody reads stdout any more, as with `| head`, leave or stop the run."""
    if show.gone:
        return
    try:
        show.batch(records, session.state)
    except OSError:
        show.gone = True
    if not show.gone:
        return
    if leaves or session.keep:
        session.detach()
    elif not session.state.stop_reason:  # a second request would skip the hosts' end
        session.stop("stdout was closed")


def show_dashboard(
    launcher: Launcher,
    cluster: Cluster,
    selected: Cluster,
    work: Job | Script,
    name: str = "",
    **settings: Any,
) -> int:
    """Show the dashboard until the user quits. The first run that begins is called `name`.
    `settings` are more fields of `LaunchRequest`.

    Raises: UsageError, without a terminal.
    """
    check_terminal()
    from tui.app.app import RankboardApp
    from tui.home.history import History
    from tui.kit.open_runs import LaunchRequest

    history = History(launcher.runs_dir, Path(cluster.file) if cluster.file else None)
    settings |= {
        "runs_dir": launcher.runs_dir,
        "check": launcher.check,
        "policy": launcher.policy,
    }
    if launcher.notifier:
        settings["failure"] = launcher.notifier.failure
    names = iter([name])

    def begin(plan: Plan) -> Session:
        return launcher.begin(plan, next(names, ""))

    def make_plan(cluster: Cluster, work: Job | Script, policy: Policy) -> Plan:
        why_it_ends = settings.get("ends")
        if policy.keep and why_it_ends:
            raise PlanError(Mistake("--on-disconnect", "keep", str(why_it_ends)))
        return launcher.plan(cluster, work, policy)

    request = LaunchRequest(cluster, selected, work, make_plan, begin, **settings)
    app = RankboardApp(request, history)
    app.show()
    for state in app.runs.states:
        print_end(state)
        narrate_record(launcher, state)
    finish_notifications(launcher, *app.runs.states)
    for state in app.runs.states:
        narrate_unconfirmed(state)
    return app.exit_code


def finish_notifications(launcher: Launcher, *states: RunState) -> None:
    """Wait until --notify has sent everything, and print why it could not, or that it sends nothing
    of a run that was left."""
    if launcher.notifier is None:
        return
    launcher.notifier.wait()
    failure = launcher.notifier.failure()
    if failure:
        narrate(failure)
    if any(state.launcher.detached for state in states):
        narrate(UNHEARD)


@contextmanager
def silence_terminal() -> Iterator[None]:
    """Keep the terminal from showing what is typed before the dashboard is there to read it."""
    if not is_on_terminal():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def check_terminal() -> None:
    """Raises: UsageError, if no dashboard can be shown."""
    if not is_on_terminal():
        raise UsageError(
            "the dashboard needs a terminal on stdin, stdout and stderr; without one, use --run "
            "to start, and rankboard logs to read a run"
        )


def is_on_terminal() -> bool:
    """Return whether a dashboard can be shown. Textual draws on stderr."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def print_end(state: RunState) -> None:
    """Print the cause of a failure, and how a run ended."""
    for line in outcome.describe_cause(state):
        echo(line, to_stderr=True)
    narrate(*describe_unfetched_files(state), outcome.verdict_line(state))


def narrate_record(launcher: Launcher, state: RunState) -> None:
    """Print remarks on a run that has ended, and where it is recorded."""
    folder = Path(os.path.relpath(launcher.runs_dir / state.plan.run))
    narrate(*(remark.text for remark in find_training_remarks(state)))
    if format_last_report(state):
        narrate(f"classification report in {folder / REPORT}")
    narrate(f"recorded in {folder}")


def narrate_unconfirmed(state: RunState) -> None:
    """Print which command to repeat if a run was stopped and ranks of it may still run."""
    if state.verdict is Verdict.STOPPED:
        narrate(*outcome.advise_stop(state.plan.run, [host.name for host in state.unconfirmed]))
