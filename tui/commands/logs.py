"""`rankboard logs`: the output of the ranks of a run."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.events import RemarkMade, Restarted, expand
from remote.host_commands import journals
from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.plan.plan import Plan
from remote.record import lock
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


def logs(
    run: RunName,
    /,
    *,
    rank: Annotated[
        int | None,
        WHOLE_NUMBER,
        Parameter(metavar="R", validator=Number(gte=0), help="show only this rank (default: all)"),
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

    The output comes from the records here, and from the hosts where they have more. Of a run that
    was restarted, a line says where each attempt ended, and why.

    Examples:
      rankboard logs last
      rankboard logs last --rank 2 --follow
      rankboard logs last --parse
    """
    with open_run(run, hosts, runs_dir) as (launcher, kept_plan):
        plan = kept_plan.plan
        if parse:
            _check_parse(plan, follow)
        if rank is not None and rank >= plan.world_size:
            raise UsageError(f"--rank {rank}: {plan.run} has ranks 0 to {plan.world_size - 1}")
        if parse:
            folder = launcher.runs_dir / plan.run
            parsing.show(read_records(launcher, plan, follow=False), plan, folder, rank)
            return
        rank_output = _Output(RunState(plan), rank)
        newest_printed: dict[int, int] = {}
        ended_hosts = set[int]()
        for record in read_records(launcher, plan, follow):
            if isinstance(record.event, AgentEnded):
                ended_hosts.add(record.host)
            newest_printed[record.host] = max(newest_printed.get(record.host, 0), record.seq)
            rank_output.print(record)
        # The launcher's own records, of SESSION, do not end with an agent.
        is_complete = rank_output.state.verdict and ended_hosts.issuperset(
            newest_printed.keys() - {SESSION}
        )
        problems: list[str] = []
        if not is_complete:
            problems = _print_rest(launcher, kept_plan, rank_output, newest_printed, follow)
    narrate(*problems)
    raise SystemExit(UNREACHABLE if problems else 0)


def _check_parse(plan: Plan, follow: bool) -> None:
    """Raises: UsageError."""
    if plan.job:
        raise UsageError(
            f"--parse: {plan.run} did not run your own script; rankboard events {plan.run} prints "
            "its steps"
        )
    if follow:
        raise UsageError("--parse reads what is recorded: leave --follow out")


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
    session = launcher.attach(kept_plan)
    for record in (batch_record for batch in session.batches() for batch_record in batch):
        output.print(record)
        if isinstance(record.event, RemarkMade):
            narrate(record.event.text)
    return [host.reason for host in session.state.hosts if host.gone]


class _Output:
    """Prints the output of all ranks or of one, with a line wherever an attempt ends."""

    def __init__(self, state: RunState, rank: int | None) -> None:
        self.state = state
        self._rank = rank
        self._attempt = 0

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
            case OutputText() as text if not text.path and record.host != SESSION:
                if self._rank in (None, text.rank):
                    output_lines = prefix_lines(text, self.state.host_name(record.host))
                    echo(output_lines, end="", to_stderr=text.stream == "stderr")

    def _print_boundary(self, attempt: int, why: str) -> None:
        """Say that the attempt before this one ended, if that is not said yet."""
        if attempt <= self._attempt:
            return
        end_text = f"attempt {attempt} ended" + (f": {one_line(why)}" if why else "")
        echo(f"---- {end_text}; attempt {attempt + 1} begins ----")
        self._attempt = attempt
