"""The checks of hosts, over the launch form or a run: the verdict, what helps, and the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

from remote.doctor.doctor import FAILED, OK, WARNING
from remote.doctor.step_estimate import ExclusionEstimate, estimate_exclusion
from remote.format import count, listed
from remote.plan.plan import Plan
from remote.run.findings.start_waits import REACHING, Wait, waiting
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from tui.doctor import checks, host_table
from tui.doctor.check_verdict import CheckVerdict, judge_checks
from tui.doctor.host_table import HostChoice, HostLine
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of
from tui.kit.inks import MUTED
from tui.kit.messages import CopyCommand
from tui.kit.run_session import HostChecks, LiveScreen
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import align_lines
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.verdict_strip import NextKey, Severity, VerdictStrip

START_ANYWAY = "Start anyway"
STYLES = {
    OK: "$text-success",
    WARNING: "$text-warning",
    FAILED: "bold $text-error",
    checks.COMMAND: "$primary",
    checks.HEAD: f"bold {MUTED}",
    checks.TITLE: "bold",
    checks.DIM: MUTED,
    checks.BAR: "$ink-compute",
    checks.KEY: "bold $text-accent",
}
GROUNDS = {
    WARNING: "on $warning 12%",
    FAILED: "on $error 12%",
}
"""The style of a line with this ground."""
SEVERITIES = {
    OK: Severity.GOOD,
    "": Severity.NEUTRAL,
    WARNING: Severity.WARN,
    FAILED: Severity.BAD,
}


class DoctorAnswer(NamedTuple):
    """What the user wants of the form after a look at the checks."""

    starts: bool = False
    left_out: tuple[str, ...] = ()
    """The hosts to leave out."""


class HostTable(NamedTuple):
    """The hosts, with what the checks have found of each."""

    names: Sequence[str]
    """The checks that it has."""
    lines: list[HostLine]
    """The last one is blank, where there are any."""
    lists_all: bool
    """Whether all checks that were passed have rows, here or below."""
    num_folded: int = 0
    """How many checks have no row because they are the same on all hosts."""


class DoctorScreen(LiveScreen, Screen[DoctorAnswer]):
    """The results of checks. With `check_again`, which repeats them, they are those of a form, and
    not part of a run."""

    CSS = """
    DoctorScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    DoctorScreen VerdictStrip { max-height: 50%; }
    DoctorScreen VerticalScroll { height: 1fr; padding: 1 1 0 1; scrollbar-size-vertical: 1; }
    DoctorScreen #found { text-wrap: nowrap; }
    """
    place = KeyPlace.CHECKS
    BINDINGS = bindings(place)

    def __init__(
        self,
        session: HostChecks,
        check_again: Callable[[], HostChecks] | None = None,
        describe_run: Callable[[Plan], Sequence[str]] = lambda _: (),
    ) -> None:
        """`describe_run` says what the form would start by a plan, one line each."""
        super().__init__()
        self._describe_run = describe_run
        self._session = session
        self._check_again = check_again
        self._clock = SessionClock()
        self._lists_passed: bool | None = None
        """Whether all checks that were passed have rows; None for those that differ between hosts,
        or where these do not fit side by side, for all if there is room."""
        self._is_listing_passed = False
        """Whether they have rows now."""
        self._shown_findings: tuple[object, ...] = ()
        self._verdict = CheckVerdict("", "")

    def compose(self) -> ComposeResult:
        hosts = self._session.plan.hosts
        yield Static(f"rankboard: checks of {count(len(hosts), 'host')}", id="title")
        yield VerdictStrip()
        with VerticalScroll():
            yield Static(id="found", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed of the results so far."""
        room = self.query_one(VerticalScroll).scrollable_content_region.size
        content = None
        with self._session.lock:
            state = self._session.state
            verdict = self._judge(state)
            if verdict != self._verdict:
                self._verdict = verdict
                self.refresh_bindings()
            findings = (room, self._lists_passed, *checks.take_findings(state))
            if findings != self._shown_findings:
                self._shown_findings = findings
                content = self._draw_findings(state, room)
        if content is not None:
            self.query_one("#found", Static).update(content)
        self._show_verdict()

    def _show_verdict(self) -> None:
        """Show the worst finding and what helps."""
        verdict = self._verdict
        # A command stands below, and a key copies it.
        advice = "" if verdict.command else verdict.needed_advice
        reasons = [advice] if advice else []
        if verdict.others:
            reasons.append(f"and {count(verdict.others, 'more finding')}:")
        strip = self.query_one(VerdictStrip)
        strip.show(SEVERITIES[verdict.outcome], verdict.title, reasons, self._list_next_keys())

    def _draw_findings(self, state: RunState, room: Size) -> Content:
        """Draw all that is below the verdict, with what would start and what is the same on all
        hosts if there is room for it."""
        above = self._list_problems(state, room.width) + self._list_choices(state, room.width)
        for table in self._choose_tables(state, room.width):
            lines = [*above, *table.lines]
            if table.num_folded:
                lines[-1:-1] = [self._describe_folded(table.num_folded)]
            passed_lines = self._list_passed(state, table, room.width)
            if len(lines) + len(passed_lines) <= room.height:
                break
        self._is_listing_passed = table.lists_all
        facts = self._list_run_facts(room.width)
        if len(lines) + len(facts) + len(passed_lines) <= room.height:
            lines += facts
        if table.num_folded and self._lists_passed is None:
            same_lines = self._list_same(state, table, room.width)
            whole_lines = [*above, *table.lines, *facts, *same_lines]
            if len(whole_lines) + len(passed_lines) <= room.height:
                lines = whole_lines
                self._is_listing_passed = True
        return Content("\n").join(_draw_line(line, room.width) for line in lines + passed_lines)

    def _choose_tables(self, state: RunState, width: int) -> Iterator[HostTable]:
        """Yield the table that the user wants. If none was asked for, it is one without what is the
        same on all hosts; where that does not fit, one of all checks if there is room, or else the
        one after it."""
        if self._lists_passed is None:
            short_table = _make_table(state, width, lists_all=False)
            if not short_table.num_folded:
                yield _make_table(state, width, lists_all=True)
            yield short_table
        else:
            yield _make_table(state, width, lists_all=self._lists_passed)

    def _describe_folded(self, num_folded: int) -> HostLine:
        key = key_of(self.app, "passed-checks")
        text = f"  {count(num_folded, 'check')} the same on all hosts: "
        return HostLine([(checks.DIM, text), (checks.KEY, key), (checks.DIM, " shows them")])

    def _list_problems(self, state: RunState, width: int) -> list[HostLine]:
        lines = []
        for place, check in enumerate(checks.list_problems(state)):
            cells = checks.describe_problem(state, check, width)
            if place == 0:
                is_copied = not self._copies_run
                cells = [cell for cell in cells if cell[0] == checks.COMMAND and is_copied]
            lines += [HostLine([cell]) for cell in cells]
        return [*lines, HostLine()] if lines else []

    def _list_choices(self, state: RunState, width: int) -> list[HostLine]:
        """Return what the user may do about hosts that hold up the others, and what it is worth."""
        weak_hosts = self._verdict.weak_hosts
        facts = [host.hello for host in state.hosts]
        estimate = estimate_exclusion(self._session.plan, facts, weak_hosts)
        if not estimate or estimate.speedup <= 1:
            return []
        choices = self._make_choices(estimate)
        return [*host_table.make_choices(choices, estimate, weak_hosts, width), HostLine()]

    def _make_choices(self, estimate: ExclusionEstimate) -> list[HostChoice]:
        hosts = listed(self._verdict.weak_hosts)
        return [
            HostChoice(f"without {hosts}", estimate.without, is_advised=True),
            HostChoice(f"with all {estimate.with_all.hosts} hosts", estimate.with_all),
        ]

    def _list_run_facts(self, width: int) -> list[HostLine]:
        """Return lines that say what the form would start; where hosts hold up the others and there
        is room, beside it what would start without them."""
        plan = self._session.plan
        facts = self._describe_run(plan)
        if not facts:
            return []
        title = "  what would start"
        weak_hosts = self._verdict.weak_hosts
        kept_hosts = tuple(host for host in plan.hosts if host.name not in weak_hosts)
        if 0 < len(kept_hosts) < len(plan.hosts):
            kept_facts = self._describe_run(replace(plan, hosts=kept_hosts))
            heads = (f"without {listed(weak_hosts)}", f"with all {len(plan.hosts)} hosts")
            pairs = zip_longest((heads[0], *kept_facts), (heads[1], *facts), fillvalue="")
            head, *lines = align_lines([("", *pair) for pair in pairs])
            if max(map(len, (head, *lines))) <= width:
                texts = [HostLine([("", line)]) for line in lines]
                head_line = HostLine([(checks.HEAD, head)])
                return [HostLine([(checks.TITLE, title)]), head_line, *texts, HostLine()]
        texts = [HostLine([("", f"  {fact}")]) for fact in facts]
        return [HostLine([(checks.TITLE, title)]), *texts, HostLine()]

    def _list_same(self, state: RunState, table: HostTable, width: int) -> list[HostLine]:
        """Return the checks that the table lacks, with the values that they have found."""
        key = key_of(self.app, "passed-checks")
        title = [(checks.TITLE, "  passed on all hosts"), (checks.DIM, f"   {key} hides them")]
        rows = host_table.make_passed_rows(state, table.names, width)
        return [HostLine(title), *map(HostLine, rows), HostLine()]

    def _list_passed(self, state: RunState, table: HostTable, width: int) -> list[HostLine]:
        """Return how many checks were passed, and if asked for, those that the table lacks."""
        if not state.checks:
            return []
        key = key_of(self.app, "passed-checks")
        hint = f"{key} hides them" if table.lists_all else f"{key} lists them"
        if table.num_folded:  # a line below the table says it
            hint = ""
        summary = host_table.make_passed_summary(state, hint)
        rows = host_table.make_passed_rows(state, table.names, width) if table.lists_all else ()
        return [HostLine(summary), *map(HostLine, rows)]

    # The verdict

    def _judge(self, state: RunState) -> CheckVerdict:
        """Return the verdict on the checks, or say what they wait for."""
        verdict = judge_checks(state)
        if verdict and (self.is_over or not self.is_of_form or verdict.outcome in checks.PROBLEMS):
            is_ready = verdict.outcome == OK and self.is_of_form
            return (
                verdict._replace(title=f"{verdict.title}: ready to start") if is_ready else verdict
            )
        return CheckVerdict("", self._describe_progress(state))

    def _describe_progress(self, state: RunState) -> str:
        """Say why there is no verdict yet."""
        if any(rank.pid for rank in state.ranks):
            return "no checks: the run was attached to, or started with --no-doctor"
        if self.is_over:
            return f"{checks.summarise(state)}: {state.stop_reason or 'see the log'}"
        if not any(host.phase in REACHING for host in state.hosts):
            return "checking: the hosts connect to each other"
        waits = waiting(state, self._clock.now(state))
        return "; ".join(map(Wait.text, waits)) or "checking: connecting to all hosts"

    def _list_next_keys(self) -> list[NextKey]:
        """Return the keys that help, the best first."""
        verdict = self._verdict
        app = self.app
        next_keys = []
        if self.check_action("leave_out", ()):
            hosts = listed(verdict.weak_hosts)
            next_keys.append(NextKey(key_of(app, "leave-host-out"), f"leave {hosts} out"))
        if self.check_action("start", ()):
            text = START_ANYWAY.lower() if verdict.outcome == WARNING else "start"
            next_keys.append(NextKey(key_of(app, "start"), text))
        if self.check_action("copy", ()):
            hosts = listed(verdict.weak_hosts)
            text = f"copy the command without {hosts}" if self._copies_run else "copy the command"
            next_keys.append(NextKey(key_of(app, "copy-remedy"), text))
        if not self.is_of_form:
            next_keys.append(NextKey(key_of(app, "back"), "back to the run"))
        elif self.is_over and verdict.outcome in checks.PROBLEMS:
            next_keys.append(NextKey(key_of(app, "check-again"), "check again"))
        return next_keys

    @property
    def is_of_form(self) -> bool:
        """Return True if the checks are those of the launch form."""
        return self._check_again is not None

    @property
    def _copies_run(self) -> bool:
        """Return True if the command of the run is copied, without the hosts that hold it up."""
        return not self.is_of_form and bool(self._verdict.weak_hosts)

    @property
    def is_over(self) -> bool:
        """Return True if the checks have ended."""
        return self._session.state.phase is RunPhase.ENDED

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow only what helps: to repeat the checks after their end, and to start or leave a host
        out where the form is below."""
        verdict = self._verdict
        if action == "again":
            return self.is_of_form and self.is_over
        if action == "start":
            return self.is_of_form and verdict.outcome != FAILED
        if action == "leave_out":
            return self.is_of_form and bool(verdict.weak_hosts)
        if action == "copy":
            return bool(verdict.command) or self._copies_run
        return True

    @property
    def names_now(self) -> Mapping[str, str]:
        """Return what keys do now, as the strip says it, where that is not their usual name."""
        return {"start": START_ANYWAY} if self._verdict.outcome == WARNING else {}

    def action_again(self) -> None:
        if self._check_again:
            self._session = self._check_again()
            self._clock = SessionClock()
            self.tick()

    def action_start(self) -> None:
        """Start the run of the form."""
        self.dismiss(DoctorAnswer(starts=True))

    def action_leave_out(self) -> None:
        """Leave the hosts out that the worst finding is about."""
        self.dismiss(DoctorAnswer(left_out=self._verdict.weak_hosts))

    def action_passed(self) -> None:
        """List the checks that were passed, or fold them."""
        self._lists_passed = not self._is_listing_passed
        self.tick()
        if self._lists_passed:
            # The list stands below all else, where it may be out of view.
            scroll = self.query_one(VerticalScroll)
            self.call_after_refresh(scroll.scroll_end, animate=False)

    def action_copy(self) -> None:
        """Copy the command that helps against the worst finding."""
        if self._copies_run:
            session = self._session
            hosts = ",".join(self._verdict.weak_hosts)
            self.post_message(CopyCommand(session.plan, session.state, hosts))
            return
        self.app.copy_to_clipboard(self._verdict.command)
        self.notify(f"copied: {self._verdict.command}", markup=False)

    def action_back(self) -> None:
        self.dismiss(DoctorAnswer())


def _make_table(state: RunState, width: int, *, lists_all: bool) -> HostTable:
    """Return the table of hosts. Without room for one, each check that has found something is a
    row."""
    names = host_table.list_host_checks(state)
    same_names = [] if lists_all else host_table.find_same_checks(state, names)
    # For a single row, a line about it is no gain.
    is_folded = len(same_names) > 1
    if lists_all or is_folded:
        shown_names = [name for name in names if not (is_folded and name in same_names)]
        table = host_table.make_check_table(state, shown_names, width)
        if table:
            num_folded = len(same_names) if is_folded else 0
            return HostTable(shown_names, [*table, HostLine()], lists_all, num_folded)
    columns = host_table.choose_columns(state, width)
    if columns:
        lines = [*host_table.make_host_table(state, columns), HostLine()]
        return HostTable(columns, lines, lists_all)
    rows: list[HostLine] = []
    for name in checks.list_check_names(state) if columns is None else ():
        if checks.find_worst(state, name) != OK:
            rows += map(HostLine, checks.make_rows(state, name, width))
    return HostTable((), [*rows, HostLine()] if rows else [], lists_all)


def _draw_line(line: HostLine, width: int) -> Content:
    parts = [Content.styled(text, STYLES.get(outcome, "")) for outcome, text in line.cells]
    content = Content("").join(parts).rstrip()
    if not line.ground:
        return content
    return content.pad_right(max(0, width - content.cell_length)).stylize(GROUNDS[line.ground])
