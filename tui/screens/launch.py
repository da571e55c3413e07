"""The launch form: the fields of `Job`, the hosts, and the plan that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus
from textual.screen import Screen
from textual.widgets import Button, Checkbox, Input, Select, Static

from remote.cluster.hosts import Cluster
from remote.doctor.job import INSTEAD, SLOW
from remote.format import count
from remote.plan.dry_run import notes
from remote.plan.plan import Plan, PlanError
from training import options
from training.agent.here import cpu_flags, lacks_bf16
from training.job import Job, JobError, groups, help_text, usual_lr
from training.registry import UnknownName
from tui.actions import Place, bindings
from tui.messages import CheckHosts, StartRun
from tui.screens.fields import ARGUMENT, Argument, Box, controls, heading, labelled, value
from tui.widgets.keys import Keys

RANKS = "ranks"
"""The field that takes the place of the list of hosts where there is only one."""
WIDE = 100
"""Columns from which on the plan stands beside the fields."""
HELP = {
    RANKS: "number of ranks on this host",
    "hosts": "the hosts that take part, in rank order",
}

MakePlan = Callable[[Cluster, Job], Plan]


class LaunchScreen(Screen[None]):
    """Asks for a job and the hosts; posts `StartRun`."""

    CSS = """
    LaunchScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    LaunchScreen #form { height: 1fr; layout: horizontal; }
    LaunchScreen VerticalScroll {
        border-top: solid $primary 40%; border-title-color: $text-muted; scrollbar-size-vertical: 1;
    }
    LaunchScreen VerticalScroll.-focused {
        border-top: solid $primary; border-title-color: $text;
    }
    LaunchScreen #fields { width: 56; }
    LaunchScreen #plan { width: 1fr; padding: 0 1; }
    LaunchScreen.-narrow #form { layout: vertical; }
    LaunchScreen.-narrow #fields { width: 1fr; height: 3fr; }
    LaunchScreen.-narrow #plan { height: 2fr; }
    LaunchScreen.-flat #plan { display: none; }
    LaunchScreen .group { height: 1; padding: 0 1; color: $text-accent; }
    LaunchScreen .field, LaunchScreen .field:focus-within { height: 1; }
    LaunchScreen .field Label { width: 18; padding: 0 1; color: $text-muted; }
    LaunchScreen .field:focus-within Label { color: $text; text-style: bold; }
    LaunchScreen .field Input, LaunchScreen .field Select { width: 1fr; max-width: 36; }
    LaunchScreen Input.-invalid { color: $text-error; }
    LaunchScreen #help {
        height: auto; min-height: 2; max-height: 4; padding: 0 1; color: $text-muted;
    }
    LaunchScreen.-flat #help { min-height: 1; max-height: 2; }
    LaunchScreen #bottom { height: auto; padding: 0 1; }
    LaunchScreen #error {
        width: 1fr; height: auto; max-height: 3; margin: 0 0 0 2; color: $text-error;
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (18, "-tall")]  # noqa: RUF012
    place = Place.FORM
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    AUTO_FOCUS = "Select"

    def __init__(
        self, cluster: Cluster, selected: Cluster, job: Job, make_plan: MakePlan, error: str = ""
    ) -> None:
        """`selected` are the hosts of `cluster` that are ticked at first. `error` is shown until
        something is changed."""
        super().__init__()
        self._cluster = cluster
        self._selected = selected.hosts
        self._job = job
        self._make_plan = make_plan
        self._error = error
        self._usual_lr = str(usual_lr(job.model))

    def compose(self) -> ComposeResult:
        yield Static("rankboard: launch a run", id="title")
        with Container(id="form"):
            with VerticalScroll(id="fields", can_focus=False) as form:
                form.border_title = "job"
                for name, group in groups().items():
                    yield heading(name)
                    for setting in group:
                        yield from controls(setting, getattr(self._job, setting.name))
                yield heading("hosts")
                yield from self._hosts()
            with VerticalScroll(id="plan") as preview:
                preview.border_title = "plan"
                yield Static(id="preview", markup=False)
        yield Static(id="help", markup=False)
        with Horizontal(id="bottom"):
            yield Button("Start", variant="success", id="start", compact=True)
            yield Static(id="error", markup=False)
        yield Keys()

    def _hosts(self) -> ComposeResult:
        """One box to tick per host; where there is one host only, the number of its ranks."""
        if len(self._cluster.hosts) == 1:
            yield labelled(
                "ranks", Input(str(self._selected[0].slots), type="integer", id=RANKS, compact=True)
            )
            return
        for index, host in enumerate(self._cluster.hosts):
            slots = count(host.slots, "rank")
            text = Content(f"{host.name}  {host.address}  {slots}")
            yield labelled("", Box(text, host in self._selected, id=f"host-{index}", compact=True))

    def on_mount(self) -> None:
        self.set_class(
            self.app.size.width < WIDE, "-narrow"
        )  # Textual does so only after the first drawing
        self.watch(self, "focused", self._mark)
        self._preview()

    def _mark(self) -> None:
        """Mark the half with the focus.

        Not by `:focus-within`: Textual then styles everything in the half anew at each step of the
        focus. With that rule on `.field` itself it styles only the two rows.
        """
        around = self.focused.ancestors_with_self if self.focused else ()
        for half in self.query(VerticalScroll):
            half.set_class(half in around, "-focused")

    @on(Select.Changed)
    def _choose(self, event: Select.Changed) -> None:
        """Ask for what the choice leaves open."""
        for row in self.query(Argument):
            if row.name == event.select.id:
                row.ask(str(event.value))
        if event.select.id == "model":
            self._suggest_lr(str(event.value))

    def _suggest_lr(self, form: str) -> None:
        """Fill in the usual learning rate of a model that was chosen, unless the user has written
        another one."""
        lr, usual = self.query_one("#lr", Input), str(usual_lr(form))
        if lr.value == self._usual_lr:
            lr.value = usual
        self._usual_lr = usual

    @on(Input.Changed)
    @on(Select.Changed)
    @on(Checkbox.Changed)
    def _preview(self) -> None:
        """Show the plan of what the form says, or why there is none."""
        try:
            plan = self._make_plan(self._chosen(), self._said())
        except (JobError, UnknownName, PlanError) as error:
            self._say(str(error))
            self.query_one("#preview", Static).update("")
            return
        if (plan.work, self._chosen().hosts) != (self._job, self._selected):
            self._error = ""
        self._say(self._error, fit=True)
        lines = [line for remark in self._cluster.remarks for line in (remark, "")]
        self.query_one("#preview", Static).update("\n".join([*lines, *_described(plan)]))

    def _say(self, error: str, fit: bool = False) -> None:
        """Show a mistake, if there is one. `fit`: the run could be started all the same."""
        self.query_one("#error", Static).update(error)
        self.query_one("#start", Button).disabled = not fit

    def _said(self) -> Job:
        """The job of the form. Raises: JobError, UnknownName."""
        return Job(**{setting.name: value(self, setting) for setting in fields(Job)})

    def _chosen(self) -> Cluster:
        """The hosts of the form. Raises: PlanError."""
        if len(self._cluster.hosts) > 1:
            boxes = [
                self.query_one(f"#host-{index}", Checkbox)
                for index in range(len(self._cluster.hosts))
            ]
            ticked = tuple(
                host for host, box in zip(self._cluster.hosts, boxes, strict=True) if box.value
            )
            return replace(self._cluster, hosts=ticked)
        text = self.query_one(f"#{RANKS}", Input).value
        if not text.isdecimal() or not int(text):
            raise PlanError(f"ranks {text!r}: write a whole number, at least 1")
        return replace(self._cluster, hosts=(replace(self._cluster.hosts[0], slots=int(text)),))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Show what the field with the focus means."""
        name = event.widget.id or ""
        known = {setting.name: help_text(setting) for setting in fields(Job)} | HELP
        text = known.get("hosts" if name.startswith("host-") else name.removesuffix(ARGUMENT), "")
        if name == "sync_option":
            text = f"{text}. {self._sync_options()}"
        self.query_one("#help", Static).update(text)

    def _sync_options(self) -> str:
        """Which options the chosen sync method has."""
        method = str(self.query_one("#sync", Select).value)
        return f"{method} has {options.describe(options.declared(method)) or 'none'}"

    def on_button_pressed(self) -> None:
        self.action_start()

    def action_start(self) -> None:
        """Start what the form says, unless it is not fit to."""
        self._ask(StartRun)

    def action_check(self) -> None:
        """Check the hosts of the form for its job."""
        self._ask(CheckHosts)

    def _ask(self, wanted: type[StartRun] | type[CheckHosts]) -> None:
        try:
            cluster, job = self._chosen(), self._said()
            self._make_plan(cluster, job)
        except (JobError, UnknownName, PlanError) as error:
            self._say(str(error))
            return
        self.post_message(wanted(cluster, job))


def _warned(plan: Plan) -> list[str]:
    """What the doctor would warn of, as far as it is known here: the CPU, where the ranks are to
    run on this machine."""
    if not plan.job or plan.job.precision != "bf16":
        return []
    if plan.is_local:
        return (
            [f"this CPU has no bf16 instructions: {SLOW} here; {INSTEAD}"]
            if lacks_bf16(cpu_flags())
            else []
        )
    return [f"{SLOW} on CPUs without bf16 instructions: f2 checks those of the hosts"]


def _described(plan: Plan) -> list[str]:
    """Hosts, ranks and command, with what should be known before the start."""
    lines = [*notes(plan), *_warned(plan)]
    for index, host in enumerate(plan.hosts):
        ranks = [slot.rank for slot in plan.slots if slot.host == index]
        span = f"ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}"
        lines.append(f"{host.name}  {host.user + '@' if host.user else ''}{host.address}  {span}")
    return [*lines, "", plan.work.command_line()]
