"""The launch form: made from the fields of `Job`, with the plan that they make."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import pytest
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Checkbox, Input, Label, Select, Static

from remote.cluster.hosts import Cluster, Host, select
from remote.plan.plan import Plan
from tests.kit.acted import ActedSession, cluster, make_plan, until
from training import options
from training.job import Job, choices, groups, help_text
from tui.app import RankboardApp
from tui.runs import Launch
from tui.screens.launch import LaunchScreen
from tui.screens.run import RunScreen


class Form:
    """The launch form, and the plans that were begun from it."""

    def __init__(
        self, lab: Cluster | None = None, selected: Cluster | None = None, job: Job | None = None
    ) -> None:
        self.begun: list[Plan] = []
        self.refusal = ""
        lab = lab or cluster(4, 1)
        self.app = RankboardApp(Launch(lab, selected or lab, job or Job(), make_plan, self._begin))

    def _begin(self, plan: Plan) -> ActedSession:
        if self.refusal:
            raise PermissionError(self.refusal)
        self.begun.append(plan)
        session = ActedSession(plan)
        session.close()
        return session

    def field(self, name: str) -> Widget:
        return self.app.screen.query_one(f"#{name}")

    def set(self, name: str, value: str) -> None:
        control = self.field(name)
        assert isinstance(control, (Input, Select))
        control.value = value

    def shown(self, name: str) -> str:
        control = self.field(name)
        assert isinstance(control, Static)
        return str(control.content)

    async def error(self, pilot: Pilot[None], part: str) -> None:
        await until(pilot, lambda: part in self.shown("error"))
        assert self.app.screen.query_one("#start", Button).disabled

    async def start(self, pilot: Pilot[None]) -> Plan:
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(self.app.screen, RunScreen))
        return self.begun[-1]


async def test_at_80x24_every_field_can_be_reached_and_is_seen_and_explained() -> None:
    form = Form()
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        seen: dict[str, tuple[bool, str]] = {}
        while (focused := form.app.focused) is not None and focused.id and focused.id not in seen:
            await pilot.pause()
            seen[focused.id] = (
                focused.region.height > 0 and focused.region.bottom <= 23,
                form.shown("help"),
            )
            await pilot.press("tab")
        for setting in fields(Job):
            more = (
                f". ddp has {options.describe(options.declared('ddp'))}"
                if setting.name == "sync_option"
                else ""
            )
            assert seen[setting.name] == (True, help_text(setting) + more)
            box_or_line = Checkbox if setting.type == "bool" else Input
            assert isinstance(form.field(setting.name), Select if choices(setting) else box_or_line)
        assert {"start", "host-0", "host-3"} <= set(seen)


async def test_the_job_of_the_form_is_the_job_that_starts() -> None:
    form = Form()
    async with form.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        form.set("sync", "all_reduce")
        form.set("batch_size", "32")
        form.set("lr", "0.25")
        form.set("steps", "45")
        form.app.screen.query_one("#verify_data", Checkbox).toggle()
        plan = await form.start(pilot)
    assert plan.work == Job(sync="all_reduce", batch_size=32, lr=0.25, steps=45, verify_data=False)
    assert [host.name for host in plan.hosts] == ["node1", "node2", "node3", "node4"]


async def test_the_form_suggests_the_learning_rate_of_the_model_unless_one_is_written() -> None:
    form = Form()
    async with form.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        lr = form.app.screen.query_one("#lr", Input)
        form.set("model", "vgg11")
        await until(pilot, lambda: lr.value == "0.01")
        form.set("model", "lenet5")
        await until(pilot, lambda: lr.value == "0.1")
        form.set("lr", "0.3")
        form.set("model", "vgg11")
        plan = await form.start(pilot)
    assert plan.work == Job(model="vgg11", lr=0.3)


async def test_options_are_words_of_one_line_and_those_of_the_chosen_method_are_shown() -> None:
    form = Form()
    async with form.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        form.set("sync", "parameter_server")
        form.field("sync_option").focus()
        await until(
            pilot, lambda: "parameter_server has mode=sync|async (sync)" in form.shown("help")
        )
        await pilot.press(*"mode=async server=9")
        await form.error(pilot, "server=9")
        form.set("sync_option", "mode=async  server=1")
        plan = await form.start(pilot)
    assert plan.work == Job(sync="parameter_server", sync_option=("mode=async", "server=1"))


async def test_what_a_choice_leaves_open_is_typed_below_it() -> None:
    form = Form()
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        await pilot.press("tab", "tab")
        assert form.app.focused is form.field("model")
        await pilot.press("tab")
        assert form.app.focused is form.field("dataset")
        form.set("model", "torchvision/NAME")
        await form.error(pilot, "model 'torchvision/': write torchvision/NAME")
        form.field("model-argument").focus()
        await until(pilot, lambda: form.app.focused is form.field("model-argument"))
        await pilot.press(*"resnet50")
        await until(pilot, lambda: "--model torchvision/resnet50" in form.shown("preview"))
        form.set("dataset", "imagefolder:PATH")
        await form.error(pilot, "data set 'imagefolder:': write imagefolder:PATH")
        form.field("dataset-argument").focus()
        await until(pilot, lambda: form.app.focused is form.field("dataset-argument"))
        await pilot.press(*"~/two words")
        plan = await form.start(pilot)
    assert plan.work == Job(model="torchvision/resnet50", dataset="imagefolder:~/two words")


async def test_the_half_and_the_row_with_the_focus_are_marked() -> None:
    form = Form()
    async with form.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))

        def marked() -> list[str]:
            halves = form.app.screen.query("VerticalScroll.-focused")
            labels = form.app.screen.query(".field Label").results(Label)
            bold = [str(label.content) for label in labels if label.styles.text_style.bold]
            return [*(str(half.id) for half in halves), *bold]

        for name, shown in (("model", ["fields", "model"]), ("lr", ["fields", "lr"])):
            form.field(name).focus()
            await until(pilot, lambda shown=shown: marked() == shown)
        form.field("plan").focus()
        await until(pilot, lambda: marked() == ["plan"])
        form.app.screen.set_focus(None)
        await until(pilot, lambda: marked() == [])


async def test_a_job_with_an_argument_fills_the_form() -> None:
    job = Job(
        model="torchvision/alexnet",
        dataset="imagefolder:/data/x",
        sync_option=("bucket_mb=10", "static_graph=yes"),
    )
    form = Form(job=job)
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "torchvision/alexnet" in form.shown("preview"))
        form.set("lr", "0.5")
        plan = await form.start(pilot)
    assert plan.work == replace(job, lr=0.5)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_groups_have_headings_and_nothing_is_cut_off(size: tuple[int, int]) -> None:
    form = Form()
    async with form.app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        shown = [
            str(line.content).strip("─ ")
            for line in form.app.screen.query(".group").results(Static)
        ]
        assert shown == [*groups(), "hosts"]
        for row in form.app.screen.query(".field"):
            if row.display:
                label, control = row.children
                assert label.region.width >= len(str(label.render())) + 2
                assert control.region.right <= row.region.right <= size[0]
                assert control.region.width >= 20 or isinstance(control, Checkbox)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_first_drawing_is_fit_for_the_width(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first: dict[type[Screen[Any]], bool] = {}
    lay_out = Screen._refresh_layout

    def seen(self: Screen[Any], size: Size | None = None, *rest: Any, **more: Any) -> None:
        first.setdefault(type(self), self.has_class("-narrow"))
        lay_out(self, size, *rest, **more)

    monkeypatch.setattr(Screen, "_refresh_layout", seen)
    form = Form()
    async with form.app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        await form.start(pilot)
        await until(pilot, lambda: RunScreen in first)
    assert [first[LaunchScreen], first[RunScreen]] == [size[0] == 80] * 2


async def test_a_box_that_is_not_ticked_is_empty() -> None:
    form = Form()
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        boxes = [form.field("compile"), form.field("verify_data"), form.field("host-0")]
        assert ["X" in str(box.render()) for box in boxes] == [False, True, True]
        assert [str(box.label).split()[0] for box in boxes] == ["off", "on", "node1"]
        boxes[0].toggle()
        await until(pilot, lambda: "X" in str(boxes[0].render()))
        assert str(boxes[0].label) == "on"


async def test_the_plan_follows_the_form() -> None:
    form = Form()
    async with form.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "node4  127.0.0.4  rank 3" in form.shown("preview"))
        assert "python -m training --sync ddp" in form.shown("preview")
        form.set("batch_size", "63")
        await until(pilot, lambda: "does not divide" in form.shown("preview"))
        form.app.screen.query_one("#host-1", Checkbox).toggle()
        await until(pilot, lambda: "node2" not in form.shown("preview"))
        assert "node4  127.0.0.4  rank 2" in form.shown("preview")


async def test_hosts_that_the_command_line_chose_are_ticked() -> None:
    lab = cluster(4, 1)
    form = Form(lab, select(lab, exclude=("node2",)))
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        plan = await form.start(pilot)
    assert [host.name for host in plan.hosts] == ["node1", "node3", "node4"]


async def test_of_one_host_the_number_of_ranks_is_asked() -> None:
    form = Form(Cluster("this machine", (Host("local", "127.0.0.1", slots=4),)))
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "ranks 0 to 3" in form.shown("preview"))
        form.set("ranks", "0")
        await form.error(pilot, "at least 1")
        form.set("ranks", "2")
        await until(pilot, lambda: "ranks 0 to 1" in form.shown("preview"))
        plan = await form.start(pilot)
    assert plan.world_size == 2


MISTAKES = [
    ("lr", "fast", "--lr 'fast': write a number"),
    ("batch_size", "", "--batch-size '': write a whole number"),
    ("batch_size", "2", "smaller than the 4 ranks"),
    ("lr", "-1", "--lr -1.0: must be at least 0"),
    ("lr", "nan", "--lr nan"),
]


async def test_mistakes_are_said_in_place() -> None:
    form = Form()
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        for name, value, part in MISTAKES:
            control = form.field(name)
            assert isinstance(control, Input)
            control.restrict = control.type_restrict = None  # type: ignore[attr-defined]
            before = control.value
            form.set(name, value)
            await form.error(pilot, part)
            await pilot.press("ctrl+s")
            assert form.begun == []
            form.set(name, before)
            await until(pilot, lambda: not form.shown("error"))


async def test_what_is_not_given_is_empty_and_zero_is_a_mistake() -> None:
    form = Form()
    async with form.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "python -m training" in form.shown("preview"))
        assert [form.app.screen.query_one(name, Input).value for name in ("#epochs", "#steps")] == [
            "",
            "",
        ]
        assert "--epochs" not in form.shown("preview")
        form.set("epochs", "0")
        await form.error(pilot, "--epochs 0: must be at least 1")
        form.set("epochs", "")
        await until(pilot, lambda: not form.shown("error"))


async def test_choices_that_exclude_each_other_are_mistakes() -> None:
    form = Form()
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        form.set("epochs", "2")
        form.set("steps", "45")
        await form.error(pilot, "exclude each other")
        form.set("steps", "")
        for index in range(4):
            form.app.screen.query_one(f"#host-{index}", Checkbox).toggle()
        await form.error(pilot, "no host is left")


async def test_a_run_that_cannot_be_recorded_is_said_in_the_form() -> None:
    form = Form()
    form.refusal = "cannot write runs"
    async with form.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        await pilot.press("ctrl+s")
        await until(
            pilot,
            lambda: (
                isinstance(form.app.screen, LaunchScreen)
                and "cannot write runs" in form.shown("error")
            ),
        )
        form.refusal = ""
        await form.start(pilot)


async def test_leaving_without_a_run_is_a_success() -> None:
    form = Form()
    async with form.app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+q")
    assert form.app.exit_code == 0
    assert form.begun == []


async def test_any_size() -> None:
    form = Form()
    async with form.app.run_test(size=(80, 24)) as pilot:
        for width, height in [(1, 1), (40, 10), (60, 14), (100, 20), (39, 40)]:
            await pilot.resize_terminal(width, height)
            await pilot.press("tab")
            await pilot.pause()


def test_the_dashboard_imports_no_torch() -> None:
    code = "import sys, tui.app; sys.exit('torch' in sys.modules or 'paramiko' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
