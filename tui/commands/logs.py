"""`rankboard logs`: the output of the ranks of a run."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.events import RemarkMade, Restarted, expand
from remote.format import ranks_text
from remote.host_commands import journals
from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.plan.plan import Plan
from remote.record import lock, read
from remote.record.events_file import follow_records
from remote.record.layout import EVENTS
from remote.record.output import is_output, read_but_numbers, read_last_output
from remote.record.overview import read_overview
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from remote.sanitise import one_line
from training.wire.events import SESSION, Record
from training.wire.host_events import AgentEnded, Launched, OutputText
from tui.flags.common import RUNS, WHOLE_NUMBER, HostsFile, RunName, RunsDir
from tui.flags.recorded import open_run, read_records
from tui.kit.exit import UNREACHABLE, UsageError
from tui.kit.narrate import echo, narrate
from tui.parse import script_report as parsing
from tui.run.narration import prefix_lines

RANK_RANGE = re.compile(r"(?P<first>\d{1,6})(-(?P<last>\d{1,6}))?", re.ASCII)
"""A rank, or a range of ranks that includes both ends."""


def logs(
    run: RunName,
    /,
    *,
    rank: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="RANKS",
            help="show only these ranks, such as 2, 0,2 or 4-7 (repeatable; default: all)",
        ),
    ] = (),
    tail: Annotated[
        int | None,
        WHOLE_NUMBER,
        Parameter(
            name=("--tail", "-n"),
            metavar="N",
            validator=Number(gte=0),
            help="print only the last N lines (default: all)",
        ),
    ] = None,
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), help="keep printing new lines")
    ] = False,
    parse: Annotated[
        bool,
        Parameter(
            help="print the steps and values that rankboard reads from a script's output",
        ),
    ] = False,
    hosts: HostsFile = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Print the output of the ranks of a run, in order of time.

    What ranks wrote to stdout and to stderr is all printed to stdout, so that grep and > find
    tracebacks as well. It comes from the records here, and from the hosts where they have more. Of
    a run that was restarted, a line says where each attempt ended, and why.

    Examples:
      rankboard logs last
      rankboard logs last --rank 2 --follow
      rankboard logs last --rank 0,4-7
      rankboard logs last --tail 20
      rankboard logs last | grep -A 20 Traceback
      rankboard logs last --parse
    """
    with open_run(run, hosts, runs_dir) as (launcher, kept_plan):
        plan = kept_plan.plan
        if parse:
            _check_parse(plan, follow, tail)
        ranks = _select_ranks(rank, plan) if rank else None
        if parse:
            folder = launcher.runs_dir / plan.run
            parsing.show(read_records(launcher, plan, follow=False), plan, folder, ranks)
            return
        output = _Output(RunState(plan), ranks, tail)
        if tail is not None and (launcher.runs_dir / plan.run / EVENTS).exists():
            problems = _print_tail(launcher, kept_plan, output, tail, follow)
        else:
            problems = _print_all(launcher, kept_plan, output, follow)
        output.release()
    narrate(*problems)
    if not (output.has_printed or problems or tail == 0):
        narrate(_describe_silence(ranks or range(plan.world_size)))
    raise SystemExit(UNREACHABLE if problems else 0)


def _check_parse(plan: Plan, follow: bool, tail: int | None) -> None:
    """Raises: UsageError."""
    if plan.job:
        raise UsageError(
            f"--parse: {plan.run} did not run your own script; rankboard events {plan.run} prints "
            "its steps"
        )
    if follow:
        raise UsageError("--parse reads what is recorded: leave --follow out")
    if tail is not None:
        raise UsageError("--parse reads the whole record: leave --tail out")


def _select_ranks(words: Sequence[str], plan: Plan) -> frozenset[int]:
    """Return the ranks that the words of --rank name. Raises: UsageError."""
    ranks = set[int]()
    for part in ",".join(words).split(","):
        match = RANK_RANGE.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"--rank {part}: write ranks, such as 2, 0,2 or 4-7")
        first_rank = int(match["first"])
        last_rank = int(match["last"] or first_rank)
        if last_rank >= plan.world_size:
            raise UsageError(f"--rank {part}: {plan.run} has ranks 0 to {plan.world_size - 1}")
        if last_rank < first_rank:
            raise UsageError(f"--rank {part}: write the lower rank first")
        ranks.update(range(first_rank, last_rank + 1))
    return frozenset(ranks)


def _describe_silence(ranks: Collection[int]) -> str:
    """Say that these ranks have printed nothing."""
    return f"{ranks_text(sorted(ranks))} {'has' if len(ranks) == 1 else 'have'} printed nothing"


def _print_all(launcher: Launcher, kept_plan: KeptPlan, output: _Output, follow: bool) -> list[str]:
    """Print all output of a run; return why some of it is missing."""
    newest_printed: dict[int, int] = {}
    ended_hosts = set[int]()
    for record in _read_output(launcher, kept_plan.plan, follow):
        if isinstance(record.event, AgentEnded):
            ended_hosts.add(record.host)
        newest_printed[record.host] = max(newest_printed.get(record.host, 0), record.seq)
        output.print(record)
    # The launcher's own records, of SESSION, do not end with an agent.
    is_complete = output.state.verdict and ended_hosts.issuperset(newest_printed.keys() - {SESSION})
    if is_complete:
        return []
    return _print_rest(launcher, kept_plan, output, newest_printed, follow)


def _read_output(launcher: Launcher, plan: Plan, follow: bool) -> Iterator[Record]:
    """Read the records of a run here, without the steps where the output needs none; with `follow`,
    also those that a live launcher adds."""
    folder = launcher.runs_dir / plan.run
    is_followed = follow and lock.launcher(folder)
    # Why an attempt ended may have to be found, and at which step.
    is_restarted = read_overview(folder).attempts > 1
    if is_followed or is_restarted or not (folder / EVENTS).exists():
        return read_records(launcher, plan, follow)
    return read_but_numbers(folder, len(plan.hosts), launcher.remark)


def _print_tail(
    launcher: Launcher, kept_plan: KeptPlan, output: _Output, tail: int, follow: bool
) -> list[str]:
    """Print the last lines of a run, of which most is not read; return why some are missing."""
    plan = kept_plan.plan
    folder = launcher.runs_dir / plan.run
    is_live = lock.launcher(folder) is not None
    last_output = read_last_output(folder, len(plan.hosts), tail, output.ranks)
    output.begin_with(last_output.records)
    if is_live and not follow:
        return []
    if is_live:
        output.release()
        for record in follow_records(
            folder, len(plan.hosts), launcher.remark, start=last_output.end
        ):
            output.print(record)
    if read.verdict(folder) and read.is_settled(folder):
        return []
    # What the hosts have beyond the record follows from its end, to which a snapshot is near.
    output.state = launcher.read_state(plan)
    recorded_hosts = [host for host in output.state.hosts if host.seq]
    if output.state.verdict and all(host.ended for host in recorded_hosts):
        return []
    newest_recorded = {host.index: host.seq for host in recorded_hosts}
    return _print_rest(launcher, kept_plan, output, newest_recorded, follow)


def _print_rest(
    launcher: Launcher,
    kept_plan: KeptPlan,
    output: _Output,
    printed: dict[int, int],
    follow: bool,
) -> list[str]:
    """Print what the hosts have beyond the records here; return why some of it is missing.

    `printed` is the newest record of each host that was printed.
    """
    # A live launcher here already records all that the hosts have.
    if lock.launcher(launcher.runs_dir / kept_plan.plan.run):
        return []
    state = output.state
    if follow and not state.verdict and not kept_plan.refusal:
        return _follow_on_hosts(launcher, kept_plan, output)
    if kept_plan.refusal:
        return [kept_plan.refusal]
    host_problems: list[journals.Problem] = []
    # What the hosts have just said of their clocks counts more than the record.
    offsets = {host.index: host.offset for host in state.hosts} | dict(kept_plan.offsets)
    for _, record_batch in journals.fetch_journals(
        launcher.transport, kept_plan.plan, printed, offsets, host_problems
    ):
        for record in expand(record_batch):
            output.print(record)
    return [problem for _, problem in host_problems]


def _follow_on_hosts(launcher: Launcher, kept_plan: KeptPlan, output: _Output) -> list[str]:
    """Attach to the run and print its output until it ends; return why hosts were lost."""
    output.release()
    session = launcher.attach(kept_plan)
    for record in (batch_record for batch in session.batches() for batch_record in batch):
        output.print(record)
        if isinstance(record.event, RemarkMade):
            narrate(record.event.text)
    return [host.reason for host in session.state.hosts if host.gone]


class _Output:
    """Prints the output of all ranks or of some, with a line wherever an attempt ends."""

    def __init__(
        self, state: RunState, ranks: Collection[int] | None, tail: int | None = None
    ) -> None:
        """`ranks`: those of which it prints; None: all.

        `tail`: hold what is printed until `release`, and then print only so many lines.
        """
        self.state = state
        self.ranks = ranks
        self.has_printed = False
        """Anything of these ranks was output."""
        self._attempt = 0
        self._held: deque[str] | None = None
        if tail is not None:
            self._held = deque(maxlen=tail)

    def release(self) -> None:
        """Print what is held, and from now on everything at once."""
        held_lines = self._held or ()
        self._held = None
        for line in held_lines:
            echo(line)

    def begin_with(self, records: Sequence[Record]) -> None:
        """Print these, of which nothing before them is known."""
        if records:
            is_restart = isinstance(records[0].event, Restarted)
            self._attempt = records[0].attempt - is_restart
        for record in records:
            if not isinstance(record.event, Restarted):  # which says why
                self._print_boundary(record.attempt, "")
            self.print(record)

    def print(self, record: Record) -> None:
        """Take in a record of the run, and print it if it is output."""
        # Taken before the record is applied, which may begin the next attempt without a cause.
        cause = self.state.cause
        apply_record(self.state, record)
        match record.event:
            case Restarted(reason=reason):
                self._print_boundary(record.attempt, reason)
            case Launched():  # where nothing is recorded of the launcher that restarted the run
                self._print_boundary(record.attempt, cause.text() if cause else "")
            case OutputText() as text if is_output(record, self.ranks):
                self._print_lines(prefix_lines(text, self.state.host_name(record.host)))
                self.has_printed = True

    def _print_boundary(self, attempt: int, why: str) -> None:
        """Say that the attempt before this one ended, if that is not said yet."""
        if attempt <= self._attempt:
            return
        end_text = f"attempt {attempt} ended" + (f": {one_line(why)}" if why else "")
        self._print_lines(f"---- {end_text}; attempt {attempt + 1} begins ----\n")
        self._attempt = attempt

    def _print_lines(self, lines: str) -> None:
        if self._held is None:
            echo(lines, end="")
        else:
            self._held.extend(lines.split("\n")[:-1])
