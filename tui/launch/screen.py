"""The launch form: hosts, the settings of a job, and the run that they amount to."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.widgets import Static

from remote.launch import find_pasted_ranks
from remote.plan.dry_run import notes
from remote.plan.pasted.line import PastedLine
from tui.doctor.check_verdict import judge_checks
from tui.doctor.checks import take_findings
from tui.doctor.run_facts import describe_batch, describe_run, list_hosts
from tui.doctor.screen import DoctorAnswer
from tui.flags.pasted import describe_problem
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.background import run_in_background
from tui.kit.bindings import bindings, key_of
from tui.kit.dialogs import DiscardDialog, Leave, PastedDialog
from tui.kit.messages import CheckHosts, ShowChecks, StartRun
from tui.kit.open_runs import LaunchRequest
from tui.kit.run_session import HostChecks, LiveScreen
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.verdict_strip import Severity, VerdictStrip
from tui.launch import script_fields
from tui.launch.cell_editor import CellEditor
from tui.launch.command_line import format_command_line
from tui.launch.draft import HOSTS, CheckedDraft, LaunchDraft, ReadyRun
from tui.launch.form_fields import OFF, FormField, format_policy_flags
from tui.launch.form_table import FormTable, name_some
from tui.launch.form_verdict import FormVerdict, judge_form
from tui.launch.host_marks import HostMark, mark_hosts, summarise
from tui.launch.presets_dialog import PresetForm
from tui.launch.run_estimate import TimedRun, describe_estimate, list_timed_runs

WIDE = 100
"""Columns from which on the description of the run stands beside the fields."""
HIGH = 36
"""Lines from which on it stands below them in fewer columns."""


class LaunchScreen(LiveScreen, PresetForm):
    """Asks for a job and the hosts; posts `StartRun`."""

    CSS = """
    LaunchScreen { layers: base above; }
    LaunchScreen VerdictStrip { max-height: 50%; }
    LaunchScreen #form { height: 1fr; layout: horizontal; }
    LaunchScreen FormTable, LaunchScreen VerticalScroll {
        border-top: solid $ink-rule; border-title-color: $text-muted;
        scrollbar-size-vertical: 1;
    }
    LaunchScreen FormTable:focus, LaunchScreen VerticalScroll:focus {
        border-top: solid $primary; border-title-color: $text;
    }
    LaunchScreen FormTable { width: 3fr; height: 1fr; padding: 0 1; }
    LaunchScreen #about { width: 2fr; height: 1fr; padding: 0 1; }
    LaunchScreen.-narrow #form { layout: vertical; }
    LaunchScreen.-narrow FormTable { width: 1fr; height: 1fr; }
    LaunchScreen.-narrow #about { width: 1fr; height: 9; display: none; }
    LaunchScreen.-narrow.-high #about { display: block; }
    LaunchScreen.-flat #about { display: none; }
    LaunchScreen #help { height: 2; padding: 0 1; color: $text-muted; }
    LaunchScreen.-flat #help { height: 1; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (18, "-tall"), (HIGH, "-high")]  # noqa: RUF012
    place = KeyPlace.FORM
    BINDINGS = bindings(place)
    AUTO_FOCUS = "FormTable"
    why_not: ClassVar[Mapping[str, str]] = {"back": "there is nothing to go back to: q quits"}
    """Why actions do nothing where they are missing."""

    def __init__(
        self,
        launch: LaunchRequest,
        error: str = "",
        checks: HostChecks | None = None,
        field: str = "",
    ) -> None:
        """`error` is shown until something is changed. `checks` are those that were made last.
        `field` is where the cursor begins."""
        super().__init__()
        self._first_field = field
        self._launch = launch
        self._error = error
        self._checks = checks
        self.runs_dir = launch.runs_dir
        self.draft = LaunchDraft.create(
            launch.cluster,
            launch.selected,
            launch.work,
            launch.policy,
            launch.keep,
            launch.options.cwd,
        )
        self._first_texts = dict(self.draft.texts)
        self.checked = CheckedDraft()
        self._editor = CellEditor()
        self._table = FormTable(self.draft, self._editor)
        self._marks: dict[str, HostMark] = {}
        self._summary = ""
        self._shown_findings: tuple[object, ...] = ()
        self._timed_runs: list[TimedRun] | None = None
        """The recorded runs that tell how long others take; None until they are read."""

    def compose(self) -> ComposeResult:
        yield VerdictStrip()
        with Container(id="form"):
            yield self._table
            with VerticalScroll(id="about") as about:
                about.border_title = " this run "
                yield Static(id="amounts", markup=False)
        yield Static(id="help", markup=False)
        yield KeyFooter()
        yield self._editor

    def on_mount(self) -> None:
        # Textual sets the class only after the first drawing, which would be of the wrong width.
        self.set_class(self.app.size.width < WIDE, "-narrow")
        self.watch(self._table, "cursor", self._show_help, init=False)
        self._check_and_show()
        if self._first_field:
            # The table has its rows only after the refresh.
            self.call_after_refresh(self._table.go_to, self._first_field)
        self.call_after_refresh(self._show_help)
        run_in_background(
            self,
            lambda: list_timed_runs(self.runs_dir),
            self._take_timed_runs,
            lambda error: None,  # the list of runs says what cannot be read
        )

    def _take_timed_runs(self, timed_runs: list[TimedRun]) -> None:
        self._timed_runs = timed_runs
        self._show_marks()

    def on_resize(self) -> None:
        # The table has its new size only after the refresh.
        self.call_after_refresh(self._check_and_show)

    # What is shown

    def on_form_table_changed(self, event: FormTable.Changed) -> None:
        self.take_changes()

    def take_changes(self) -> None:
        """Check and show the draft after a change."""
        self._error = ""
        self._check_and_show()

    def _check_and_show(self) -> None:
        """Show what the form amounts to, or what keeps the run from starting."""
        self.checked = self.draft.check(self._launch.make_plan)
        self._show_marks()
        self.query_one("#amounts", Static).update(self._format_description())
        self._show_help()

    def _format_description(self) -> str:
        """Return what is known of the run, and the command line that starts it."""
        remarks = list(self._launch.cluster.remarks)
        bad_sign = palette.sign("bad")
        warn_sign = palette.sign("slow")
        ready = self.checked.ready
        if ready is None:
            mistakes = [f"{bad_sign} {mistake.text}" for mistake in self.checked.mistakes]
            return "\n".join([*mistakes, *remarks])
        facts = describe_run(ready.plan, self._launch.link)
        warnings = [f"{bad_sign} {self._error}"] if self._error else []
        warnings += [f"{warn_sign} {warning}" for warning in notes(ready.plan)]
        start = f"$ {self._format_command_line(ready)}"
        hosts = list_hosts(ready.plan)
        if self.has_class("-narrow"):
            return "\n".join(["; ".join(facts), *warnings, start, *hosts, *remarks])
        parts = [facts, warnings, [start], hosts, remarks]
        return "\n\n".join("\n".join(part) for part in parts if part)

    def _format_command_line(self, ready: ReadyRun) -> str:
        """Return the command line that starts the run."""
        launch = self._launch
        return format_command_line(
            launch.cluster,
            ready.cluster,
            ready.plan.job or ready.work,
            format_policy_flags(self.draft.get_policy_texts(), self.draft.keep),
            launch.options,
            self.draft.get_text(script_fields.CWD).strip(),
        )

    def _show_help(self) -> None:
        """Explain the row under the cursor."""
        if not self._table.form_rows:
            return
        row = self._table.row
        host = self.draft.hosts.get(row.name)
        mistakes = [mistake for mistake in self.checked.mistakes if mistake.field == row.name]
        if mistakes:
            text = f"{palette.sign('bad')} {mistakes[0].text}"
        elif row.field is None and row.group == HOSTS:
            text = self._describe_hosts()
        elif row.field is None:
            text = f"{row.group}: {key_of(self.app, 'fold')} folds and unfolds the group"
        elif host and host.name in self._marks:
            text = self._marks[host.name].details
        else:
            text = self._describe_field(row.field)
        self.query_one("#help", Static).update(text)

    def _describe_field(self, field: FormField) -> str:
        """Say what a field means, with its flag and its choices. Its row has the default."""
        text = f"{field.label}: {field.help}"
        if field.flag.startswith("--"):
            text += f" ({field.flag})"
        if field.choices and not field.is_switch:
            how = f"{key_of(self.app, 'edit')} chooses: "
            text += f"\n{how}{name_some(field.choices, self.size.width - 2 - len(how))}"
        return text

    def _describe_hosts(self) -> str:
        """Say how to choose hosts."""
        other_hosts = "for other hosts: rankboard --hosts FILE"
        if self.draft.hosts:
            return f"{key_of(self.app, 'fold')} on a host takes it in or out; {other_hosts}"
        return f"this machine alone: type their number at ranks; {other_hosts}"

    # The command line

    def action_copy(self) -> None:
        """Copy the command line."""
        ready = self.checked.ready
        if ready is None:
            problem = "there is no command line: correct the mistakes first"
            self.notify(problem, severity="warning")
            return
        line = self._format_command_line(ready)
        self.app.copy_to_clipboard(line)
        self.notify(f"copied: {line}", markup=False)

    # Checks

    def action_check(self) -> None:
        """Check the hosts of the form for its job, in the background."""
        ready = self._check_ready()
        if ready:
            self.post_message(CheckHosts(ready))

    def follow(self, checks: HostChecks) -> None:
        """Show what these checks find."""
        self._checks = checks
        self._check_and_show()

    def action_checks(self) -> None:
        """Show all that the checks have found; begin checks if there are none."""
        if self._checks is None:
            self.action_check()
        else:
            self.post_message(ShowChecks())

    def _show_marks(self) -> None:
        """Mark the fields with mistakes, and the hosts with what checks have found so far."""
        ready = self.checked.ready
        find_key = partial(key_of, self.app)
        state = None
        verdict = judge_form(self.checked, self._error, None, find_key)
        if self._checks:
            is_of_work = ready is None or ready.plan.work == self._checks.plan.work
            with self._checks.lock:
                state = self._checks.state
                self._marks = mark_hosts(state)
                self._summary = summarise(state)
                if is_of_work:
                    verdict = judge_form(self.checked, self._error, state, find_key)
            if not is_of_work:
                self._summary += ", before the last changes"
        batch_note = describe_batch(ready.plan) if ready else ""
        self._table.show_state(self.checked.mistakes, self._marks, self._summary, batch_note)
        self._show_verdict(verdict)

    def _show_verdict(self, verdict: FormVerdict) -> None:
        """Show the verdict, with how long the run takes, and with what else is known of it where
        that has no place of its own."""
        reasons = list(verdict.reasons)
        ready = self.checked.ready
        if ready and verdict.severity is Severity.GOOD:
            estimate = self._estimate(ready)
            if estimate:
                reasons.insert(0, estimate)
            if not self.query_one("#about").display:
                warn_sign = palette.sign("slow")
                warnings = [f"{warn_sign} {warning}" for warning in notes(ready.plan)]
                # An estimate has the number of steps, too.
                lengths = [] if estimate else describe_run(ready.plan, self._launch.link)[1:2]
                reasons += warnings or lengths
        self.query_one(VerdictStrip).show(
            verdict.severity, verdict.title, reasons, verdict.next_keys
        )

    def _estimate(self, ready: ReadyRun) -> str:
        """Say how long the run takes; "" if that is not known yet."""
        # The rate of a link says nothing of runs that were recorded with another one.
        if self._timed_runs is None or self._launch.link:
            return ""
        return describe_estimate(ready.plan, self._timed_runs)

    def tick(self) -> None:
        """Draw what checks under way have found since."""
        if not self._checks or not self.is_active:
            return
        with self._checks.lock:
            new_findings = take_findings(self._checks.state)
        if new_findings != self._shown_findings:
            self._shown_findings = new_findings
            self._show_marks()
            self._show_help()

    # Start

    def action_start(self) -> None:
        """Start the run, with all that was typed before, if it can be started."""
        # The editor may have characters to handle that were typed before this key.
        self._editor.call_later(self._start)

    def _start(self) -> None:
        """Start the run, unless another screen has come meanwhile, as after a key that came
        twice."""
        ready = self._check_ready() if self.is_active else None
        pasted = find_pasted_ranks(ready.plan) if ready else None
        if ready and pasted:
            problem = describe_problem(pasted, ready.plan.world_size)
            dialog = PastedDialog(problem, shlex.join(pasted.words))
            self.app.push_screen(dialog, partial(self._start_pasted, ready, pasted))
        elif ready:
            self.post_message(StartRun(ready))

    def _start_pasted(self, ready: ReadyRun, pasted: PastedLine, answer: Leave | None) -> None:
        """Start a line that was typed for one node, as the user wants it."""
        chosen_run: ReadyRun | None = ready if answer is Leave.AS_IS else None
        if answer is Leave.ACCEPT:
            self.draft.set_text(script_fields.WORDS, shlex.join(pasted.words))
            chosen_run = self._check_ready()
        if chosen_run:
            self.post_message(StartRun(chosen_run))

    # Checks

    @property
    def _weak_hosts(self) -> tuple[str, ...]:
        """Return the names of the hosts that can be left out because of what checks have found."""
        ready = self.checked.ready
        if self._checks is None or ready is None:
            return ()
        with self._checks.lock:
            verdict = judge_checks(self._checks.state, [host.name for host in ready.plan.hosts])
        return verdict.weak_hosts if verdict else ()

    def action_leave_out(self) -> None:
        """Leave the hosts out that the checks warn of."""
        if self._weak_hosts:
            self._leave_out(self._weak_hosts)
        else:
            self.notify("no host is to be left out: the checks warn of none", markup=False)

    def take_doctor_answer(self, answer: DoctorAnswer | None) -> None:
        """Do what the user wants after a look at the checks."""
        if answer and answer.left_out:
            self._leave_out(answer.left_out)
        elif answer and answer.starts:
            self.action_start()

    def _leave_out(self, names: Collection[str]) -> None:
        """Leave hosts out, and check those that are left."""
        for field_name, host in self.draft.hosts.items():
            if host.name in names:
                self.draft.set_text(field_name, OFF)
        self.take_changes()
        self.action_check()

    def _check_ready(self) -> ReadyRun | None:
        """Return the run of the form. If it cannot be started, go to the first mistake."""
        self._editor.end()
        self._check_and_show()
        if self.checked.mistakes:
            self._table.go_to(self.checked.mistakes[0].field)
            self.app.bell()
        return self.checked.ready

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Go back only if there is a screen below, beside Textual's own first one."""
        return action != "back" or self in self.app.screen_stack[2:]

    def action_back(self) -> None:
        """Go back to the screen below; ask first if settings were changed."""
        changed = self._count_changed()
        if changed:
            self.app.push_screen(DiscardDialog(changed), self._leave)
        else:
            self.dismiss()

    def _leave(self, answer: Leave | None) -> None:
        if answer is Leave.DISCARD:
            self.dismiss()

    async def action_quit(self) -> None:
        """Quit; ask first if settings were changed."""
        changed = self._count_changed()
        if changed:
            self.app.push_screen(DiscardDialog(changed), self._quit)
        else:
            await self.app.action_quit()

    async def _quit(self, answer: Leave | None) -> None:
        if answer is Leave.DISCARD:
            await self.app.action_quit()

    def _count_changed(self) -> int:
        """Return how many fields are other than when the form was opened."""
        return len({name for name, _ in self.draft.texts.items() ^ self._first_texts.items()})
