"""The launch form: hosts, the settings of a job, and what they amount to."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from remote.format import count
from remote.plan.plan import Script
from training.job import Job
from tui.doctor.checks import findings
from tui.kit import palette
from tui.kit.actions import Place
from tui.kit.bindings import bindings, key_of
from tui.kit.dialogs import DiscardDialog, Leave
from tui.kit.messages import CheckHosts, ShowChecks, StartRun
from tui.kit.run_session import HostChecks, LiveScreen
from tui.kit.runs import Launch
from tui.kit.widgets.keys import Keys
from tui.launch import script_fields as program
from tui.launch.cell_editor import CellEditor
from tui.launch.command_line import command, lacking
from tui.launch.draft import CheckedDraft, LaunchDraft
from tui.launch.form_fields import policy_words
from tui.launch.form_table import FormTable
from tui.launch.host_marks import Mark, marks, summary
from tui.launch.presets_dialog import PresetForm
from tui.launch.run_facts import facts, places, warnings

WIDE = 100
"""Columns from which on what the job amounts to stands beside the fields."""


class LaunchScreen(LiveScreen, PresetForm):
    """Asks for a job and the hosts; posts `StartRun`."""

    CSS = """
    LaunchScreen { layers: base above; }
    LaunchScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    LaunchScreen #status {
        height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis;
    }
    LaunchScreen #form { height: 1fr; layout: horizontal; }
    LaunchScreen FormTable, LaunchScreen VerticalScroll {
        border-top: solid $primary 40%; border-title-color: $text-muted;
        scrollbar-size-vertical: 1;
    }
    LaunchScreen FormTable:focus, LaunchScreen VerticalScroll:focus {
        border-top: solid $primary; border-title-color: $text;
    }
    LaunchScreen FormTable { width: 3fr; height: 1fr; padding: 0 1; }
    LaunchScreen #about { width: 2fr; height: 1fr; padding: 0 1; }
    LaunchScreen.-narrow #form { layout: vertical; }
    LaunchScreen.-narrow FormTable { width: 1fr; height: 1fr; }
    LaunchScreen.-narrow #about { width: 1fr; height: 7; }
    LaunchScreen.-flat #about { display: none; }
    LaunchScreen #help { height: 2; padding: 0 1; color: $text-muted; }
    LaunchScreen.-flat #help { height: 1; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (18, "-tall")]  # noqa: RUF012
    place = Place.FORM
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    AUTO_FOCUS = "FormTable"

    def __init__(self, launch: Launch, error: str = "", checks: HostChecks | None = None) -> None:
        """`error` is shown until something is changed. `checks` are those that were made last."""
        super().__init__()
        self._launch = launch
        self._error = error
        self._checks = checks
        self.runs_dir = launch.runs_dir
        cwd = launch.options.cwd
        self.draft = LaunchDraft.of(
            launch.cluster, launch.selected, launch.work, launch.policy, launch.keep, cwd
        )
        self._opened = dict(self.draft.texts)
        self.checked = CheckedDraft()
        self._editor = CellEditor()
        self._fields = FormTable(self.draft, self._editor)
        self._marks: dict[str, Mark] = {}
        self._summary = ""
        self._seen: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static("rankboard: new run", id="title")
        yield Static(id="status", markup=False)
        with Container(id="form"):
            self._fields.border_title = " settings "
            yield self._fields
            with VerticalScroll(id="about") as about:
                about.border_title = " this run "
                yield Static(id="amounts", markup=False)
        yield Static(id="help", markup=False)
        yield Keys()
        yield self._editor

    def on_mount(self) -> None:
        self.set_class(
            self.app.size.width < WIDE, "-narrow"
        )  # Textual does so only after the first drawing
        self.watch(self._fields, "cursor", self._explain, init=False)
        self._show()
        self.call_after_refresh(self._explain)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    # What is shown

    def changed(self) -> None:
        """Something was changed."""
        self._error = ""
        self._show()

    def _show(self) -> None:
        """Show what the form amounts to, or what hinders a start."""
        self.checked = self.draft.check(self._launch.make_plan)
        self._show_state()
        self.query_one("#status", Static).update(self._status())
        self.query_one("#amounts", Static).update(self._amounts())
        self._explain()

    def _status(self) -> Content:
        """What hinders a start, or what would start."""
        bad = [one.text for one in self.checked.mistakes] or [self._error] * bool(self._error)
        if bad:
            more = f" (and {count(len(bad) - 1, 'more mistake')})" if len(bad) > 1 else ""
            return Content.styled(f"{palette.sign('bad')} {bad[0]}{more}", "$text-error")
        plan = self.checked.plan
        assert plan
        ranks = count(plan.world_size, "rank")
        hosts = count(len(plan.hosts), "host")
        text = f"{palette.sign('good')} ready: {plan.what}, {ranks} on {hosts}"
        return Content.styled(text, "$text-success")

    def _amounts(self) -> str:
        """What the job amounts to, and the command line that starts it."""
        plan = self.checked.plan
        remarks = list(self._launch.cluster.remarks)
        sign = palette.sign("bad")
        if plan is None:
            return "\n".join([*(f"{sign} {one.text}" for one in self.checked.mistakes), *remarks])
        known = facts(plan, self._launch.link)
        warned = [f"{sign} {self._error}"] * bool(self._error)
        warned += [f"{palette.sign('warn')} {one}" for one in warnings(plan)]
        line = [f"$ {self.command_line()}"]
        lacks = self._lacks()
        if lacks:
            line = [f"{palette.sign('warn')} {lacks}"]
        if self.has_class("-narrow"):
            return "\n".join(["; ".join(known), *warned, *line, *places(plan), *remarks])
        parts = [known, warned, line, places(plan), remarks]
        return "\n\n".join("\n".join(part) for part in parts if part)

    def command_line(self) -> str:
        """The command line that starts what the form says; "" where it cannot be started, or where
        none can."""
        plan = self.checked.plan
        chosen = self.checked.cluster
        work = self.draft.work()
        if plan is None or chosen is None or work is None or self._lacks():
            return ""
        policy = policy_words(self.draft.policy_texts(), self.draft.keep)
        job = plan.job or work
        cwd = self.draft.text(program.CWD).strip()
        return command(self._launch.cluster, chosen, job, policy, self._launch.options, cwd)

    def _lacks(self) -> str:
        """Why no command line starts it, and what to write instead; "" where one does."""
        chosen = self.checked.cluster
        launch = self._launch
        return lacking(launch.cluster, chosen, launch.options) if chosen else ""

    def _explain(self) -> None:
        """Say what the row under the cursor means."""
        if not self._fields.lines:
            return
        line = self._fields.line
        field = line.field
        if field is None:
            text = f"{line.group}: {key_of(self.app, 'fold')} folds and unfolds the group"
        elif (host := self.draft.host(field.name)) and host.name in self._marks:
            text = self._marks[host.name].whole
        else:
            usual = self.draft.default(field.name)
            text = f"{field.help} (default: {usual})" if usual else field.help
        self.query_one("#help", Static).update(text)

    def on_form_table_changed(self, event: FormTable.Changed) -> None:
        self.changed()

    # The command line

    def action_copy(self) -> None:
        """Copy the command line."""
        line = self.command_line()
        if line:
            self.app.copy_to_clipboard(line)
            self.notify(f"copied: {line}", markup=False)
        else:
            why = self._lacks() or "there is no command line: correct the mistakes first"
            self.notify(why, severity="warning", markup=False)

    # Checks

    def action_check(self) -> None:
        """Check the hosts of the form for its job, in the background."""
        work = self._fit()
        if work:
            cluster = self.checked.cluster
            policy = self.checked.policy
            assert cluster
            self.post_message(CheckHosts(cluster, work, policy))

    def follow(self, checks: HostChecks) -> None:
        """Show what these checks find."""
        self._checks = checks
        self._show()

    def action_checks(self) -> None:
        """Show all that the checks have found; make them where there are none."""
        if self._checks is None:
            self.action_check()
        else:
            self.post_message(ShowChecks())

    def _show_state(self) -> None:
        """Mark the fields with mistakes, and the hosts with what checks have found so far."""
        if self._checks:
            with self._checks.lock:
                self._marks = marks(self._checks.state)
                self._summary = summary(self._checks.state)
            if self.checked.plan and self.checked.plan.work != self._checks.plan.work:
                self._summary += ", before the last changes"
        self._fields.show_state(self.checked.mistakes, self._marks, self._summary)

    def tick(self) -> None:
        """Draw what checks under way have found since."""
        if self._checks and self.is_active:
            with self._checks.lock:
                seen = findings(self._checks.state)
            if seen != self._seen:
                self._seen = seen
                self._show_state()
                self._explain()

    # Start

    def action_start(self) -> None:
        """Start what the form says, with what was typed before, unless it is not fit to."""
        self._editor.call_later(self._start)

    def _start(self) -> None:
        """Start it, unless another screen has come meanwhile, as after a key that came twice."""
        if self.is_active and (work := self._fit()):
            cluster = self.checked.cluster
            assert cluster
            self.post_message(StartRun(cluster, work, self.checked.policy))

    def _fit(self) -> Job | Script | None:
        """The work as the form says it, not as its plan has it. None where it cannot be started:
        the cursor then goes to the first mistake."""
        self._editor.leave(0)
        self._show()
        if not self.checked.mistakes:
            return self.draft.work()
        self._fields.go(self.checked.mistakes[0].field)
        self.app.bell()
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Go back only where there is a screen below."""
        return action != "back" or self in self.app.screen_stack[2:]

    def action_back(self) -> None:
        """Go back to the screen below; ask first where settings were changed."""
        now, before = (set(texts.items()) for texts in (self.draft.texts, self._opened))
        changed = len({name for name, _ in now ^ before})
        if changed:
            self.app.push_screen(DiscardDialog(changed), self._leave)
        else:
            self.dismiss()

    def _leave(self, answer: Leave | None) -> None:
        if answer is Leave.DISCARD:
            self.dismiss()
