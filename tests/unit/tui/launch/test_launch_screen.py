"""The launch form on the screen: its list of fields, edited with the keyboard or the mouse."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Button, OptionList, Static

from remote.cluster.hosts import LOCAL, Cluster, Host
from remote.events import CheckFinished, SessionClosed
from remote.plan.plan import Plan, Policy, Script
from remote.record import index
from remote.run.run_state import RunState
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.looks import screen_text
from training.job import Job
from training.wire.events import SESSION
from tui.app.app import RankboardApp
from tui.doctor import host_table
from tui.doctor.host_table import HostLine
from tui.doctor.screen import DoctorScreen
from tui.kit import choice_dialogs
from tui.kit.choice_dialogs import ChoiceDialog
from tui.kit.dialogs import DeleteDialog, DiscardDialog, PastedDialog
from tui.kit.open_runs import LaunchRequest
from tui.kit.widgets.verdict_strip import VerdictStrip
from tui.launch import host_marks, presets, script_fields
from tui.launch import screen as launch
from tui.launch.cell_editor import CellEditor
from tui.launch.draft import HOSTS, MAIN, METHOD_OPTIONS
from tui.launch.form_fields import ON
from tui.launch.form_table import FormTable
from tui.launch.presets_dialog import PresetsDialog
from tui.launch.screen import LaunchScreen
from tui.run.screen import RunScreen

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "rankboard" / "presets"


class Form:
    """The launch form, the plans that were begun from it, and the checks."""

    def __init__(
        self, lab: Cluster | None = None, work: Job | Script | None = None, **more: Any
    ) -> None:
        self.begun: list[Plan] = []
        self.doctors: list[ActedSession] = []
        self.refusal = ""
        lab = lab or cluster(4, 1)
        launch = LaunchRequest(
            lab, lab, work or Job(), make_plan, self._begin, check=self._check, **more
        )
        self.app = RankboardApp(launch)

    def _begin(self, plan: Plan) -> ActedSession:
        if self.refusal:
            raise PermissionError(self.refusal)
        self.begun.append(plan)
        session = ActedSession(plan)
        session.close()
        return session

    def _check(self, plan: Plan) -> ActedSession:
        self.doctors.append(ActedSession(plan))
        return self.doctors[-1]

    @property
    def screen(self) -> LaunchScreen:
        screen = self.app.screen
        assert isinstance(screen, LaunchScreen)
        return screen

    @property
    def fields(self) -> FormTable:
        return self.screen.query_one(FormTable)

    @asynccontextmanager
    async def opened(self, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
        """The form in a terminal of `size`, once it is drawn."""
        async with self.app.run_test(size=size) as pilot:
            await self.ready(pilot)
            yield pilot

    async def ready(self, pilot: Pilot[None]) -> None:
        await until(
            pilot,
            lambda: isinstance(self.app.screen, LaunchScreen) and bool(self.fields.form_rows),
        )

    async def go(self, pilot: Pilot[None], name: str) -> None:
        self.fields.go_to(name)
        await pilot.pause()

    def row_number(self, name: str) -> int:
        """The number of the row of a field or a group."""
        return [row.name for row in self.fields.form_rows].index(name)

    def verdict(self) -> str:
        """The strip above the form."""
        return str(self.screen.query_one(VerdictStrip).content)

    async def click(self, pilot: Pilot[None], name: str) -> None:
        """Click the row of a field or a group, where two lines stand above the first row."""
        await pilot.click(FormTable, offset=(8, self.row_number(name) + 2))

    def keys_down(self, *names: str) -> list[str]:
        """The keys that go from the first of two fields down to the second."""
        first, second = map(self.row_number, names)
        return ["down"] * (second - first)

    async def type(self, pilot: Pilot[None], name: str, text: str) -> None:
        """Type a text in place of that of a field, without leaving it."""
        await self.go(pilot, name)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(self.app.focused, CellEditor))
        await pilot.press("ctrl+u", *text)
        await until(pilot, lambda: self.screen.draft.get_text(name) == text)
        await pilot.pause()

    def text(self, name: str) -> str:
        return self.screen.draft.get_text(name)

    def shown(self, name: str) -> str:
        return str(self.screen.query_one(f"#{name}", Static).content)

    def row(self, name: str) -> str:
        """The row of a field or a group, as it is drawn."""
        for number, line in enumerate(self.fields.form_rows):
            if name == line.name:
                return " ".join(cell.text for cell in self.fields._rows[number])
        raise AssertionError(f"{name} is folded")

    def drawn(self) -> list[str]:
        return screen_text(self.app).splitlines()

    async def start(self, pilot: Pilot[None]) -> Plan:
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(self.app.screen, RunScreen))
        return self.begun[-1]


# The list -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_every_field_can_be_reached_and_is_seen_and_explained(size: tuple[int, int]) -> None:
    form = Form()
    async with form.opened(size=size) as pilot:
        for group in list(form.screen.draft.groups()):
            form.fields.fold(group, is_folded=False)
        form.fields.cursor = 0
        for line in form.fields.form_rows:
            await pilot.pause()
            assert form.fields.row == line
            if line.field:
                assert any(f" {line.field.label} " in row for row in form.drawn())
                assert line.field.help.split("\n")[0] in form.shown("help")
            await pilot.press("down")
        shown = {line.field.name for line in form.fields.form_rows if line.field}
        assert {setting.name for setting in fields(Job)} - {"sync_option"} <= shown


HERE = Cluster("this machine", (Host("local", "127.0.0.1", slots=4, transport=LOCAL),))


async def test_the_first_look_says_what_starts_what_to_change_and_which_key_starts() -> None:
    form = Form(lab=HERE, work=Job(epochs=20))
    async with form.opened() as pilot:
        lines = form.drawn()
        sentence = "4 ranks on this machine train lenet5 on digits with ddp, 20 epochs"
        assert sentence in lines[0]
        assert any("▶ f5 start" in line for line in lines[:4])
        places = [
            next(number for number, line in enumerate(lines) if f"  {label} " in line)
            for label in ("model", "data set", "sync method", "epochs", "batch size", "ranks")
        ]
        assert places == sorted(places)
        for group in form.screen.draft.groups():
            assert any(f" {group} " in line for line in lines), "all is seen without scrolling"
        assert form.fields.row.name == "model", "the cursor is on what can be changed"
        assert "model: network to train" in form.shown("help")
        await pilot.pause()


async def test_a_row_says_what_its_number_counts_and_how_many_choices_there_are() -> None:
    form = Form(work=Job(momentum=0.9))
    async with form.opened(size=(120, 40)) as pilot:
        assert "16 samples per rank" in form.row("batch_size")
        assert re.search(r"ddp \d+ choices", form.row("sync"))
        assert "* 0.9 default: 0" in form.row("momentum")
        await form.type(pilot, "steps", "45")
        await pilot.press("enter")
        await until(pilot, lambda: "until 45 steps" in form.row("epochs"))
        assert "45 steps" in form.verdict()


async def test_quitting_asks_first_where_settings_would_be_lost() -> None:
    form = Form()
    async with form.opened() as pilot:
        await form.type(pilot, "lr", "0.3")
        await pilot.press("enter")
        await until(pilot, lambda: form.app.focused is form.fields)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(form.app.screen, DiscardDialog))
        await pilot.pause()
        await pilot.press("escape")
        await form.ready(pilot)
        await form.go(pilot, "lr")
        await pilot.press("delete", "q")
        await pilot.pause()
    assert form.app.exit_code == 0


async def test_a_default_is_said_once_beside_its_value() -> None:
    form = Form()
    async with form.opened(size=(120, 40)) as pilot:
        await form.go(pilot, "policy.on_disconnect")
        await until(pilot, lambda: "(--on-disconnect)" in form.shown("help"))
        assert "default" not in form.shown("help")
        assert "default" not in form.row("lr"), "the value is the default"
        await form.go(pilot, "sync")
        await until(pilot, lambda: "enter chooses: " in form.shown("help"))


async def test_a_group_folds_and_says_how_much_in_it_is_changed() -> None:
    form = Form(work=Job(steps=90, seed=7, momentum=0.9))
    async with form.opened() as pilot:
        await form.go(pilot, "seed")
        await pilot.press("space")
        assert form.fields.row.field is None
        assert "optimisation   * 3 changed " in form.row("optimisation")
        assert all(
            line.field is None for line in form.fields.form_rows if line.group == "optimisation"
        )
        await pilot.press("right")
        await form.go(pilot, "seed")
        await pilot.press("r")
        form.fields.go_to("optimisation")
        await pilot.press("left")
        await until(pilot, lambda: "2 changed" in form.row("optimisation"))
        assert form.text("seed") == "42"


async def test_groups_are_folded_at_first_unless_something_in_them_is_changed() -> None:
    form = Form(work=Job(checkpoint_every="epoch"))
    async with form.opened():
        groups = list(form.screen.draft.groups())
        open_groups = [group for group in groups if not form.fields.is_folded(group)]
        assert open_groups == [MAIN, HOSTS, "log and checkpoints"]
        assert form.row("checkpoint_every") == "  checkpoint every * epoch default: none"


async def test_as_many_groups_are_open_as_have_room_for_all_their_rows() -> None:
    num_open = []
    for size in ((80, 24), (120, 40), (200, 60)):
        form = Form()
        async with form.opened(size=size):
            groups = form.screen.draft.groups()
            num_open.append(len(groups) - sum(map(form.fields.is_folded, groups)))
            # In 80x24, not even the groups that are always open fit.
            assert size == (80, 24) or not form.fields.max_scroll_y, "all rows are seen"
    assert num_open == sorted(set(num_open)), "more in more room"
    assert num_open[-1] == len(groups)


async def test_the_title_counts_the_settings_that_are_changed_with_the_sign_of_their_rows() -> None:
    form = Form()
    async with form.opened() as pilot:
        assert "all at their defaults" in str(form.fields.border_title)
        await form.go(pilot, "host.1")
        await pilot.press("space")
        await until(pilot, lambda: "3 of 4 hosts" in form.row("hosts"))
        assert "all at their defaults" in str(form.fields.border_title), "a host is no setting"
        await form.type(pilot, "lr", "0.3")
        await until(pilot, lambda: "* 1 changed" in str(form.fields.border_title))
        assert "* 0.3" in form.row("lr")


async def test_many_hosts_are_folded() -> None:
    form = Form(lab=cluster(60, 1), work=Job(batch_size=600))
    async with form.opened():
        assert "60 of 60 hosts" in form.row("hosts")
        assert len([line for line in form.fields.form_rows if line.group == "hosts"]) == 1


async def test_hosts_are_ticked_and_the_plan_follows() -> None:
    form = Form()
    async with form.opened(size=(120, 40)) as pilot:
        assert "node4  127.0.0.4  rank 3" in form.shown("amounts")
        await form.go(pilot, "host.1")
        await pilot.press("space")
        await until(pilot, lambda: "3 of 4 hosts" in form.row("hosts"))
        assert "[ ] node2" in form.row("host.1")
        assert "node2" not in form.shown("amounts").split("\n\n")[-1]
        assert "$ rankboard --only node1,node3,node4 --sync ddp" in form.shown("amounts")
        plan = await form.start(pilot)
    assert [host.name for host in plan.hosts] == ["node1", "node3", "node4"]


# Editing ------------------------------------------------------------------------------------------


async def test_a_text_is_edited_in_its_row_and_counts_at_once() -> None:
    form = Form()
    async with form.opened(size=(120, 40)) as pilot:
        await form.type(pilot, "lr", "0.25")
        editor = form.screen.query_one(CellEditor)
        row = form.fields.region.y + 1 + form.fields.cursor + 1 - form.fields.scroll_offset.y
        assert editor.region.y == row
        assert "--lr 0.25" in form.shown("amounts")
        await pilot.press("enter")
        await until(pilot, lambda: form.app.focused is form.fields)
        assert not editor.display
        assert form.row("lr") == "  learning rate * 0.25 default: 0.1"
        await form.type(pilot, "lr", "0.5")
        await pilot.press("escape")
        await until(pilot, lambda: form.app.focused is form.fields)
        assert form.text("lr") == "0.25"
        plan = await form.start(pilot)
    assert plan.work == Job(lr=0.25)


async def test_digits_begin_a_number_and_arrows_leave_it() -> None:
    form = Form()
    async with form.opened() as pilot:
        await form.go(pilot, "batch_size")
        await pilot.press("3", "2", "down")
        await until(pilot, lambda: form.app.focused is form.fields)
        assert form.text("batch_size") == "32"
        assert form.fields.row.field
        assert form.fields.row.field.name == "lr"
        await form.go(pilot, "accumulate")
        await pilot.press("2", "tab")
        await until(pilot, lambda: form.app.focused is form.fields)
        plan = await form.start(pilot)
    assert plan.work == Job(batch_size=32, accumulate=2)


async def test_a_digit_where_no_number_belongs_says_so() -> None:
    form = Form()
    async with form.opened() as pilot:
        for place, name in ((MAIN, MAIN), ("sync", "sync method")):
            form.fields.go_to(place)
            await pilot.press("3")
            said = f"{name} takes no number"
            await until(pilot, lambda: any(one.message == said for one in form.app._notifications))  # noqa: B023
        assert form.text("sync") == "ddp"


async def test_a_number_that_is_opened_is_replaced_by_what_is_typed() -> None:
    form = Form(work=Job(steps=300))
    async with form.opened() as pilot:
        await form.go(pilot, "steps")
        await pilot.press("enter", "4", "5", "enter")
        await until(pilot, lambda: form.app.focused is form.fields)
        plan = await form.start(pilot)
    assert plan.work == Job(steps=45)


async def test_a_run_can_be_started_while_a_text_is_edited() -> None:
    form = Form()
    async with form.opened() as pilot:
        await form.type(pilot, "steps", "45")
        plan = await form.start(pilot)
    assert plan.work == Job(steps=45)


async def test_keys_count_in_the_order_in_which_they_were_typed() -> None:
    """However late they are handled: nothing is typed into another row, or started without it."""
    form = Form()
    async with form.opened() as pilot:
        form.fields.fold("optimisation", is_folded=False)
        await form.go(pilot, "batch_size")
        keys = [
            *(*"32", *form.keys_down("batch_size", "lr")),
            *(*"0.25", "enter", *form.keys_down("lr", "steps")),
            *(*"45", *form.keys_down("steps", "momentum")),
            *(*"9e-1", "f5"),
        ]
        for key in keys:
            form.app.post_message(Key(key, key if len(key) == 1 else None))
        await until(pilot, lambda: isinstance(form.app.screen, RunScreen))
    assert [plan.work for plan in form.begun] == [
        Job(steps=45, batch_size=32, lr=0.25, momentum=0.9)
    ]


async def test_a_choice_is_picked_from_a_list_or_turned() -> None:
    form = Form()
    async with form.opened() as pilot:
        await form.go(pilot, "sync")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(form.app.screen, ChoiceDialog))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        assert form.text("sync") == "gather_scatter"
        await form.go(pilot, "sync")
        await pilot.press("right", "right")
        assert form.text("sync") == "local_sgd"
        form.fields.fold(METHOD_OPTIONS, is_folded=False)
        assert "every" in form.row("local_sgd.every")
        await form.go(pilot, "sync")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(form.app.screen, ChoiceDialog))
        await pilot.press("up", "escape")
        await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
        assert form.text("sync") == "local_sgd"


async def test_letters_go_to_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice_dialogs, "PAUSE", 600.0)
    form = Form()
    async with form.opened() as pilot:
        for keys, choice in (
            ("pa", "parameter_server"),
            ("paj", "ring"),  # what begins no choice is a key
            ("aring", "ring"),
            ("jx", "ddp"),
        ):
            await form.go(pilot, "sync")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(form.app.screen, ChoiceDialog))
            await pilot.press(*keys, "enter")
            await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
            assert form.text("sync") == choice
            form.fields.set_text("sync", "all_reduce")


async def test_a_choice_that_takes_an_argument_is_completed_by_typing() -> None:
    form = Form()
    async with form.opened() as pilot:
        await form.go(pilot, "model")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(form.app.screen, ChoiceDialog))
        form.app.screen.query_one(OptionList).highlighted = 3
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(form.app.focused, CellEditor))
        assert "write torchvision/NAME" in form.row("model")
        await pilot.press(*"resnet50", "enter")
        await until(pilot, lambda: form.app.focused is form.fields)
        plan = await form.start(pilot)
    assert plan.work == Job(model="torchvision/resnet50")


async def test_a_click_ticks_folds_and_edits() -> None:
    form = Form()
    async with form.opened(size=(120, 40)) as pilot:
        await form.click(pilot, "host.0")
        await until(pilot, lambda: form.text("host.0") != ON)
        await form.click(pilot, "hosts")
        await until(pilot, lambda: form.fields.is_folded(HOSTS))
        await form.go(pilot, "epochs")
        await form.click(pilot, "epochs")
        await until(pilot, lambda: isinstance(form.app.focused, CellEditor))
        await form.click(pilot, "batch_size")
        await pilot.press("7", "enter")
        await until(pilot, lambda: form.text("batch_size") == "7")


# Mistakes -----------------------------------------------------------------------------------------


async def test_mistakes_stand_beside_their_fields_and_at_the_top() -> None:
    form = Form()
    async with form.opened() as pilot:
        text = "✓ ready: 4 ranks on 4 hosts train lenet5 on digits with ddp, 1 epoch"
        assert form.verdict().startswith(text)
        assert "▶ f5 start" in form.verdict()
        await form.type(pilot, "lr", "fast")
        assert form.row("lr").endswith("✗ write a number")
        assert form.verdict().startswith("✗ learning rate is fast: write a number")
        await pilot.press("enter")
        await form.type(pilot, "batch_size", "2x")
        await pilot.press("enter")
        assert "and 1 more mistake" in form.verdict()
        form.fields.fold(MAIN, is_folded=True)
        assert "2 mistakes" in form.row(MAIN)
        await pilot.press("f5")
        assert form.begun == []
        assert form.shown("help") == "✗ batch size is 2x: write a whole number"
        assert form.fields.row.field
        assert form.fields.row.field.name == "batch_size"
        await pilot.press("delete")
        await form.go(pilot, "lr")
        await pilot.press("delete")
        await until(pilot, lambda: "✓ ready" in form.verdict())


async def test_a_mistake_that_is_too_long_for_its_row_is_said_in_full_elsewhere() -> None:
    form = Form(lab=HERE)
    async with form.opened() as pilot:
        await form.type(pilot, "ranks", "0")
        await pilot.press("enter")
        assert form.row("ranks").endswith("✗ mistake")
        text = "✗ ranks is 0: write a whole number, at least 1"
        assert form.verdict().startswith(text)
        await form.go(pilot, "ranks")
        assert form.shown("help") == text
        assert not any("…" in line for line in form.drawn() if "✗" in line)


async def test_a_form_starts_nothing_once_another_screen_has_come() -> None:
    """The second of two keys may be handled when the run of the first has a screen already."""
    form = Form()
    async with form.opened() as pilot:
        screen = form.screen
        await form.start(pilot)
        screen._start()
        await pilot.pause()
        assert len(form.begun) == 1
        assert isinstance(form.app.screen, RunScreen)


async def test_a_run_that_cannot_be_recorded_is_said_in_the_form() -> None:
    form = Form()
    form.refusal = "cannot write runs"
    async with form.opened() as pilot:
        await pilot.press("f5")
        await until(
            pilot,
            lambda: (
                isinstance(form.app.screen, LaunchScreen) and "cannot write runs" in form.verdict()
            ),
        )
        form.refusal = ""
        await form.start(pilot)


# Presets, recent jobs, the command line -----------------------------------------------------------


async def test_a_preset_is_saved_chosen_and_deleted(folder: Path) -> None:
    form = Form(work=Job(sync="ring", lr=0.3), policy=Policy(max_restarts=2))
    async with form.opened() as pilot:
        await pilot.press("W", *"mine", "enter")
        await until(pilot, lambda: presets.list_names() == ["mine"])
        await form.type(pilot, "lr", "0.7")
        await pilot.press("enter")
        await form.go(pilot, "sync")
        await pilot.press("delete", "p")
        await until(pilot, lambda: isinstance(form.app.screen, PresetsDialog))
        await pilot.press("enter")
        await form.ready(pilot)
        assert (form.text("sync"), form.text("lr")) == ("ring", "0.3")
        assert form.text("policy.max_restarts") == "2"
        await pilot.press("p")
        await until(pilot, lambda: isinstance(form.app.screen, PresetsDialog))
        await pilot.press("delete")
        await until(pilot, lambda: isinstance(form.app.screen, DeleteDialog))
        await pilot.pause()
        assert presets.list_names() == ["mine"]
        await pilot.press("right", "enter")
        await until(pilot, lambda: presets.list_names() == [])
        await pilot.press("escape")
        await form.ready(pilot)
        assert presets.list_names() == []
        plan = await form.start(pilot)
    assert plan.work == Job(sync="ring", lr=0.3)
    assert plan.policy == Policy(max_restarts=2)


async def test_texts_name_the_keys_that_the_user_has_chosen(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder.parent / "keys.toml").write_text('[keys]\nfold = "F"\ndelete-preset = "X"\n')
    form = Form()
    async with form.opened() as pilot:
        form.fields.go_to(METHOD_OPTIONS)
        text = f"{METHOD_OPTIONS}: F folds and unfolds the group"
        await until(pilot, lambda: form.shown("help") == text)
        await pilot.press("W", *"mine", "enter")
        await until(pilot, lambda: presets.list_names() == ["mine"])
        await pilot.press("p")
        await until(pilot, lambda: "X: delete a preset" in screen_text(form.app))
        await pilot.press("X")
        await until(pilot, lambda: "Delete the preset 'mine'?" in screen_text(form.app))


async def test_a_program_with_its_arguments_is_a_preset(folder: Path) -> None:
    script = Script(("train.py", "--lr", "0.3"), fetch=("*.pt",))
    form = Form(work=script)
    async with form.opened() as pilot:
        await pilot.press("W", *"mine", "enter")
        await until(pilot, lambda: presets.list_names() == ["mine"])
        await form.type(pilot, script_fields.WORDS, "other.py")
        await pilot.press("enter", "p")
        await until(pilot, lambda: isinstance(form.app.screen, PresetsDialog))
        await pilot.press("enter")
        await form.ready(pilot)
        plan = await form.start(pilot)
    assert plan.work == script


async def test_a_broken_preset_is_said_in_the_dialog(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_text("[job]\nlr = -1")
    form = Form()
    async with form.opened() as pilot:
        await pilot.press("p")
        await until(pilot, lambda: isinstance(form.app.screen, PresetsDialog))
        await pilot.press("enter")
        await until(pilot, lambda: "at least 0" in str(form.app.screen.query_one(Static).content))


async def test_a_recent_job_fills_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = index.Entry("a", job={"sync": "ring", "steps": 45}, verdict="finished")
    monkeypatch.setattr(index, "entries", lambda _: [entry])
    form = Form()
    async with form.opened() as pilot:
        await pilot.press("p")
        await until(pilot, lambda: any("--steps 45" in row for row in form.drawn()))
        await pilot.press("end", "enter")
        await form.ready(pilot)
        plan = await form.start(pilot)
    assert plan.work == Job(sync="ring", steps=45)


async def test_the_command_line_is_copied() -> None:
    form = Form(work=Job(data_dir="/my data"))
    async with form.opened() as pilot:
        await pilot.press("y")
        await until(pilot, lambda: form.app.clipboard == "rankboard --data-dir '/my data'")
        await form.type(pilot, "lr", "x")
        await pilot.press("enter", "y")
        assert form.app.clipboard == "rankboard --data-dir '/my data'"


# Checks -------------------------------------------------------------------------------------------


async def test_the_worst_finding_of_a_host_is_its_mark_and_nothing_waits() -> None:
    form = Form()
    async with form.opened(size=(120, 40)) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: "checking" in form.row("host.0"))
        await form.type(pilot, "lr", "0.2")
        await pilot.press("enter")
        (doctor,) = form.doctors
        doctor.say(
            SESSION,
            *(CheckFinished(host, "torch", "ok", "2.14.1") for host in range(4)),
            CheckFinished(1, "disk", "warning", "3 GiB left", "delete old runs"),
            CheckFinished(1, "login", "failed", "no key", "add one"),
        )
        await until(pilot, lambda: "✗ login: no key" in form.row("host.1"))
        assert "1 check passed so far" in form.row("host.0")
        assert form.row("hosts").endswith("checking, before the last changes")
        await form.go(pilot, "host.1")
        assert form.shown("help") == "login: no key (add one)"
        await pilot.press("D")
        await until(pilot, lambda: isinstance(form.app.screen, DoctorScreen))
        await pilot.press("escape")
        await form.ready(pilot)
        assert doctor.stops == []
        plan = await form.start(pilot)
        assert doctor.stops == ["other work begins"]
        doctor.close()
    assert plan.work == Job(lr=0.2)


def weak_node3(doctor: ActedSession) -> None:
    """Let checks of four hosts find that one has few cores."""
    advice = "leave it out with --exclude node3"
    text = "only 0.1 cores, the others 0.4: all ranks wait for it"
    weak = CheckFinished(2, "cores", "warning", text, advice, value="0.1", helps_to_exclude=True)
    fine = [CheckFinished(host, "cores", "ok", "0.4") for host in (0, 1, 3)]
    doctor.say(SESSION, *fine, weak, SessionClosed())
    doctor.close()


async def test_the_strip_says_what_checks_are_about_and_a_key_leaves_the_host_out() -> None:
    form = Form()
    async with form.opened() as pilot:
        await pilot.press("h")
        assert not form.begun, "nothing is to be left out yet"
        await pilot.press("c")
        await until(pilot, lambda: form.verdict().startswith("checking 4 hosts"))
        assert "▶ f5 start" in form.verdict()
        weak_node3(form.doctors[0])
        await until(pilot, lambda: form.verdict().startswith("▲ node3: only 0.1 cores"))
        assert "▶ h leave node3 out   f5 start anyway" in form.verdict()
        assert "4 ranks on 4 hosts train lenet5" in form.verdict()
        assert "▲ cores: 0.1" in form.row("host.2")
        await pilot.press("h")
        await until(pilot, lambda: len(form.doctors) == 2)
        assert [host.name for host in form.doctors[1].plan.hosts] == ["node1", "node2", "node4"]
        form.doctors[1].say(SESSION, CheckFinished(0, "cores", "ok", "0.4"), SessionClosed())
        form.doctors[1].close()
        await until(pilot, lambda: form.verdict().startswith("✓ ready: 3 ranks on 3 hosts"))
        plan = await form.start(pilot)
    assert plan.world_size == 3


async def test_what_is_the_same_on_all_hosts_is_one_line_until_a_key_shows_it() -> None:
    form = Form()
    async with form.opened(size=(120, 20)) as pilot:
        await pilot.press("c")
        await until(pilot, lambda: bool(form.doctors))
        for name, value in (("torch", "2.14.1"), ("python", "3.11.7")):
            same = [CheckFinished(host, name, "ok", value) for host in range(4)]
            form.doctors[0].say(SESSION, *same)
        weak_node3(form.doctors[0])
        await until(pilot, lambda: form.verdict().startswith("▲ node3: only 0.1 cores"))
        await pilot.press("D")
        hint = "2 checks the same on all hosts: v shows them"
        await until(pilot, lambda: hint in screen_text(form.app))
        assert "2.14.1" not in screen_text(form.app)
        assert "0.1 ▲" in screen_text(form.app)
        assert screen_text(form.app).count("h leave") == 1, "the line of keys has it once more"
        await pilot.press("v")
        await until(pilot, lambda: screen_text(form.app).count("2.14.1") == 4)
        assert hint not in screen_text(form.app)
        await pilot.press("v")
        await until(pilot, lambda: hint in screen_text(form.app))


async def test_a_failed_check_is_no_reason_to_start_and_other_work_is_not_judged_by_it() -> None:
    form = Form()
    async with form.opened() as pilot:
        await pilot.press("c")
        await until(pilot, lambda: bool(form.doctors))
        missing = CheckFinished(0, "data", "failed", "there is no digits", "copy it there")
        form.doctors[0].say(SESSION, replace(missing, same=(0, 1, 2, 3)), SessionClosed())
        form.doctors[0].close()
        await until(pilot, lambda: form.verdict().startswith("✗ all hosts: there is no digits"))
        assert "copy it there" in form.verdict()
        assert "f5" not in form.verdict()
        assert "leave" not in form.verdict(), "all hosts lack it"
        form.fields.set_text("dataset", "mnist")
        await until(pilot, lambda: form.verdict().startswith("✓ ready: "))


async def test_checks_are_written_anew_only_where_they_have_found_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form, written = Form(), list[str]()

    def counted(state: RunState, names: Sequence[str], width: int) -> list[HostLine]:
        written.append("table")
        return table(state, names, width)

    def marked(state: RunState) -> dict[str, host_marks.HostMark]:
        written.append("marks")
        return known(state)

    table, known = host_table.make_check_table, host_marks.mark_hosts
    monkeypatch.setattr(host_table, "make_check_table", counted)
    monkeypatch.setattr(launch, "mark_hosts", marked)
    async with form.opened(size=(120, 40)) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: "checking" in form.row("host.0"))
        (doctor,) = form.doctors
        doctor.say(SESSION, CheckFinished(0, "torch", "ok", "2.14.1"))
        await until(pilot, lambda: "1 check passed so far" in form.row("host.0"))
        for kind, key in ((LaunchScreen, ""), (DoctorScreen, "D")):
            await pilot.press(*key)
            await until(pilot, lambda kind=kind: isinstance(form.app.screen, kind))
            form.app.tick()
            await pilot.pause()
            written.clear()
            for _ in range(5):
                form.app.tick()
            assert not written
        doctor.say(SESSION, CheckFinished(0, "disk", "warning", "3 GiB left"))
        await until(pilot, lambda: "3 GiB left" in screen_text(form.app))
        assert written == ["table"]
        await pilot.press("escape")
        doctor.close()


# Around it ----------------------------------------------------------------------------------------


async def test_a_job_and_a_policy_fill_the_form() -> None:
    job = Job(model="torchvision/alexnet", sync_option=("bucket_mb=10",), dataset="imagefolder:/x")
    form = Form(work=job, policy=Policy(max_restarts=1))
    async with form.opened() as pilot:
        await form.type(pilot, "lr", "0.5")
        plan = await form.start(pilot)
    assert plan.work == replace(job, lr=0.5)
    assert plan.policy.max_restarts == 1


async def test_of_one_host_the_number_of_ranks_is_asked() -> None:
    form = Form(lab=Cluster("this machine", (Host("local", "127.0.0.1", slots=4),)))
    async with form.opened() as pilot:
        await form.type(pilot, "ranks", "2")
        plan = await form.start(pilot)
    assert plan.world_size == 2


@pytest.mark.parametrize("size", SIZES)
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
    async with form.opened(size=size):
        pass
    assert first[LaunchScreen] is (size[0] == 80)


async def test_the_form_has_few_widgets() -> None:
    """Each takes time before the first drawing: thirty rows of three took more than a second."""
    form = Form()
    async with form.opened(size=(120, 40)):
        assert len(form.screen.query("*")) < 15


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
            for key in ("tab", "down", "enter"):
                await pilot.press(key)
                screen_text(form.app)


NOT_NEEDED = (
    *(
        "torch",
        "numpy",
        "paramiko",
        "importlib.metadata",
        "http.client",
        "training.agent.local_api",
    ),
    *(
        "remote.session.session",
        "remote.session.examination",
        "remote.host_commands.inventory",
    ),
)


@pytest.mark.parametrize("screen", ["home", "launch"])
def test_nothing_is_loaded_before_a_screen_that_it_does_not_need(screen: str) -> None:
    code = (
        f"import sys, tui.app.start_run, tui.app.app, tui.home.history, tui.{screen}.screen; "
        f"print(sorted({{*{NOT_NEEDED}}} & {{*sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# A program of the user's own ----------------------------------------------------------------------


async def test_a_program_is_typed_and_started() -> None:
    """It takes the place of the settings of a job, and the line to paste says so."""
    form = Form()
    async with form.opened((120, 40)) as pilot:
        await form.go(pilot, script_fields.WORDS)
        assert form.row(script_fields.WORDS).rstrip().endswith("none")
        await form.type(pilot, script_fields.WORDS, "train.py --lr 0.1")
        assert "✓ ready: 4 ranks on 4 hosts run train.py --lr 0.1" in form.verdict()
        await pilot.press("enter")
        await until(pilot, lambda: form.app.focused is form.fields)
        assert form.fields.row.name == script_fields.WORDS, "the cursor stays on it"
        assert "$ rankboard -- train.py --lr 0.1" in form.shown("amounts")
        with pytest.raises(AssertionError, match="is folded"):
            form.row("model")
        await pilot.press("f5")
        await until(pilot, lambda: form.begun)
    assert form.begun[0].work == Script(("train.py", "--lr", "0.1"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("accept", "train.py --rank {rank} --world-size {world_size}"),
        ("as_is", "train.py --rank 0 --world-size 2"),
        ("stay", ""),
    ],
)
async def test_a_line_of_one_node_is_asked_about(answer: str, words: str) -> None:
    form = Form(work=Script(("train.py", "--rank", "0", "--world-size", "2")))
    async with form.opened((120, 40)) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(form.app.screen, PastedDialog))
        assert "all 4 ranks would get --rank 0" in screen_text(form.app)
        assert "train.py --rank '{rank}' --world-size '{world_size}'" in screen_text(form.app)
        form.app.screen.query_one(f"#{answer}", Button).press()
        if words:
            await until(pilot, lambda: form.begun)
        else:
            await until(pilot, lambda: isinstance(form.app.screen, LaunchScreen))
    assert [plan.work for plan in form.begun] == ([Script(tuple(words.split()))] if words else [])


@pytest.mark.parametrize("size", SIZES)
async def test_the_form_opens_with_a_program(size: tuple[int, int]) -> None:
    form = Form(work=Script(("train.py", "it's"), watch=False))
    async with form.opened(size) as pilot:
        assert form.text(script_fields.WORDS) == """train.py 'it'"'"'s'"""
        assert "rankboard --no-watch -- train.py" in form.shown("amounts")
        await form.type(pilot, script_fields.WORDS, "")
        await pilot.press("enter")
        await until(pilot, lambda: form.app.focused is form.fields)
        assert form.row("model")
