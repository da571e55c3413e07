"""The rows of the launch form: groups that fold, and their fields with what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from remote.cluster.hosts import Host
from remote.doctor.doctor import FAILED, OK, WARNING
from remote.format import count
from tui.kit import palette
from tui.kit.actions import Place
from tui.kit.bindings import bindings
from tui.kit.choice_dialogs import ChoiceDialog
from tui.kit.widgets.choices import Choices
from tui.kit.widgets.table import Cell, Column, Row
from tui.launch.cell_editor import CellEditor
from tui.launch.draft import HOSTS, FieldMistake, LaunchDraft
from tui.launch.form_fields import OFF, ON, Field, argument, is_of
from tui.launch.host_marks import Mark

SIGNS = {OK: "good", WARNING: "warn", FAILED: "bad", "": "work"}
INKS = {OK: "table--good", WARNING: "table--work", FAILED: "table--bad", "": "table--dim"}
MANY = 8
"""So many hosts are listed at first; of more, only how many take part."""
DIGITS = "0123456789.-"
FOLDED = ("computation", "data files", "log and checkpoints", "failures and disconnects")
"""The groups that are folded at first, unless something in them is changed."""
VALUE = (18, 30)
"""The least and the most columns of a value."""
EMPTY = {
    "epochs": "1",
    "steps": "whole epochs",
    "program.cwd": "this folder",
}
"""What is shown in place of an empty text; otherwise "none"."""


@dataclass(frozen=True)
class Line:
    """A row: a field, or the head of a group."""

    group: str
    field: Field | None = None


class FormTable(Choices):
    """The fields of a draft, one row each; they are changed here. `Changed` says so, and `tell`
    draws them again."""

    place = Place.FIELD
    BINDINGS: ClassVar[list[BindingType]] = [
        replace(one, priority=True)  # each counts before the next key, which may be typed at once
        for one in (
            *bindings(Place.LIST),
            *bindings(place),
            *(Binding(character, f"begin({character!r})", show=False) for character in DIGITS),
        )
        if isinstance(one, Binding)
    ]

    class Changed(Message):
        """A field has another text."""

    def __init__(self, draft: LaunchDraft, editor: CellEditor) -> None:
        super().__init__()
        self.draft = draft
        self._editor = editor
        self.folded = {group for group in FOLDED if not draft.changed(group)}
        if len(draft.cluster.hosts) > MANY:
            self.folded.add(HOSTS)
        self.lines: list[Line] = []
        self._mistakes: dict[str, FieldMistake] = {}
        self._marks: Mapping[str, Mark] = {}
        self._summary = ""

    @property
    def line(self) -> Line:
        """The row under the cursor."""
        return self.lines[self.cursor]

    def show_state(
        self, mistakes: Sequence[FieldMistake], marks: Mapping[str, Mark], summary: str = ""
    ) -> None:
        """Draw, with what hinders a start, and what is known of hosts by name and of all."""
        self._mistakes = {one.field: one for one in mistakes}
        self._marks = marks
        self._summary = summary
        self.draw()

    def fold(self, group: str, folded: bool) -> None:
        """Fold or unfold a group; the cursor goes to its head."""
        (self.folded.add if folded else self.folded.discard)(group)
        self.draw()
        self.cursor = self.lines.index(Line(group))

    def go(self, name: str) -> None:
        """Move the cursor to a field, and unfold its group."""
        for group, fields in self.draft.groups().items():
            if name == group or any(one.name == name for one in fields):
                self.folded.discard(group)
                self.draw()
        for number, line in enumerate(self.lines):
            if name == (line.field.name if line.field else line.group):
                self.cursor = number

    @property
    def _value_region(self) -> Region:
        """Where on the screen the value under the cursor stands."""
        x, y, width, _ = self.content_region
        label, value, _ = self.columns()
        row = self.cursor + 1 - self.scroll_offset.y
        return Region(x + label.width + 2, y + row, max(1, min(value.width, width) - 3), 1)

    def on_resize(self) -> None:
        self.draw()
        self._editor.move(self._value_region)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scroll; a text that is edited would stay where it is."""
        super().watch_scroll_y(old_value, new_value)
        self._editor.leave(0)

    def draw(self) -> None:
        """Draw what has changed."""
        if not self.size.width:
            return
        self.lines = []
        rows = []
        for group, fields in self.draft.groups().items():
            self.lines.append(Line(group))
            rows.append(self._group(group, fields))
            if group not in self.folded:
                self.lines += [Line(group, one) for one in fields]
                rows += [self._row(one) for one in fields]
        self.show(self.columns(), rows)

    def columns(self) -> list[Column]:
        """Columns as wide as the fields need, and as there is room for beside a scrollbar."""
        width = self.size.width
        groups = self.draft.groups()
        names = [f"  {group}" for group in groups]
        names += [_label(one) for fields in groups.values() for one in fields]
        label = min(max(map(len, names)) + 1, width * 2 // 5)
        value = max(VALUE[0], min(VALUE[1], (width - label) * 2 // 5))
        note = max(1, width - self.styles.scrollbar_size_vertical - label - value)
        return [
            Column("setting", label, right=False),
            Column("value", value, right=False),
            Column("", note, right=False),
        ]

    # Rows

    def _group(self, group: str, fields: Sequence[Field]) -> Row:
        sign = palette.sign("closed" if group in self.folded else "open")
        changed = self.draft.changed(group)
        said = f"{changed} changed" if changed else ""
        if group == HOSTS and fields[0].is_switch:
            ticked = sum(self.draft.text(one.name) == ON for one in fields)
            said = f"{ticked} of {count(len(fields), 'host')}"
        elif group == HOSTS:
            said = self.draft.cluster.hosts[0].name
        note = Cell(self._summary if group == HOSTS else "", "table--dim")
        hidden = [one for one in fields if one.name in self._mistakes]
        if hidden:
            if group in self.folded:
                note = self._bad(count(len(hidden), "mistake"))
        elif group in self._mistakes:
            note = self._bad(self._mistakes[group].short)
        return Cell(f"{sign} {group}", "table--head"), Cell(said), note

    def _row(self, field: Field) -> Row:
        host = self.draft.host(field.name)
        if host and field.is_switch:
            return self._host(field, host)
        text = self.draft.text(field.name)
        changed = field.name in self.draft.texts
        mistake = self._mistakes.get(field.name)
        shown = f"[{'x' if text == ON else ' '}] {text}" if field.is_switch else text
        value = shown or EMPTY.get(field.name, "none")
        note = Cell("")
        if mistake:
            note = self._bad(mistake.short)
        elif host and (mark := self._mark(host)):
            note = mark
        elif changed:
            usual = self.draft.default(field.name) or EMPTY.get(field.name, "none")
            note = Cell(f"default: {usual}", "table--dim")
        ink = "table--bad" if mistake else "" if changed else "table--dim"
        return Cell(_label(field)), Cell(f"{'*' if changed else ' '} {value}", ink), note

    def _host(self, field: Field, host: Host) -> Row:
        ticked = "x" if self.draft.text(field.name) == ON else " "
        note = self._mark(host) or Cell(count(host.slots, "rank"), "table--dim")
        label = Cell(f"  [{ticked}] {host.name}")
        dim = "" if ticked == "x" else "table--dim"
        return label, Cell(f"  {host.address}", dim), note

    def _mark(self, host: Host) -> Cell | None:
        """What the checks have found of a host; None where none were made."""
        mark = self._marks.get(host.name)
        if mark:
            return Cell(f"{palette.sign(SIGNS[mark.outcome])} {mark.text}", INKS[mark.outcome])
        return None

    def _bad(self, text: str) -> Cell:
        return Cell(f"{palette.sign('bad')} {text}", "table--bad")

    # Changes

    def set(self, name: str, text: str) -> None:
        """Change the text of a field."""
        self.draft.set(name, text)
        self.post_message(self.Changed())

    def action_open(self) -> None:
        """Edit the field under the cursor, choose for it, or fold the group."""
        field = self.line.field
        if field is None or field.is_switch:
            self.action_fold()
        elif field.choices:
            text = self.draft.text(field.name)
            choice = next((one for one in field.choices if is_of(text, one)), text)
            pick = ChoiceDialog(field.label, field.help, field.choices, choice)
            self.app.push_screen(pick, partial(self._picked, field))
        else:
            self._edit(field)

    def on_choices_chosen(self, event: Choices.Chosen) -> None:
        event.stop()
        self.action_open()

    def _picked(self, field: Field, choice: str | None) -> None:
        """Take a choice; one with an argument is completed by typing."""
        if choice is None:
            return
        if argument(choice):
            text = self.draft.text(field.name)
            self._edit(field, "" if is_of(text, choice) else argument(choice))
        else:
            self.set(field.name, choice)

    def _edit(self, field: Field, typed: str = "") -> None:
        """Edit the text of the field under the cursor in its row. `typed` takes its place."""
        text = self.draft.text(field.name)
        place = self._value_region
        typing = partial(self.set, field.name)
        self._editor.edit(text, place, typing, self._left, typed, whole=field.numeric)

    def _left(self, step: int) -> None:
        """Take the keys again after a text was edited."""
        self.cursor += step
        if self.screen.focused in (None, self._editor):
            self.screen.set_focus(self)

    def action_begin(self, digit: str) -> None:
        """Begin the text of a field that takes a number; say so where it takes none."""
        field = self.line.field
        if field and field.numeric:
            self._edit(field, digit)
        else:
            name = field.label if field else self.line.group
            self.notify(f"{name} takes no number", timeout=2, markup=False)

    def action_fold(self) -> None:
        """Tick a switch or a host; fold or unfold a group."""
        line = self.line
        if line.field and line.field.is_switch:
            self.set(line.field.name, OFF if self.draft.text(line.field.name) == ON else ON)
        else:
            self.fold(line.group, line.group not in self.folded)

    def action_turn(self, step: int) -> None:
        """Take the next choice of a field; fold a group, or unfold it."""
        line = self.line
        if line.field is None:
            self.fold(line.group, step < 0)
        elif known := [one for one in line.field.choices if not argument(one)]:
            text = self.draft.text(line.field.name)
            at = known.index(text) + step if text in known else 0
            self.set(line.field.name, known[at % len(known)])

    def action_reset(self) -> None:
        """Give the field its default again; on the head of a group, all its fields."""
        line = self.line
        for field in [line.field] if line.field else self.draft.groups()[line.group]:
            self.draft.set(field.name, self.draft.default(field.name))
        self.post_message(self.Changed())


def _label(field: Field) -> str:
    """The name of a field; options stand below their method."""
    option = "." in field.name and not field.name.startswith(("policy.", "host."))
    return f"{'    ' if option else '  '}{field.label}"
