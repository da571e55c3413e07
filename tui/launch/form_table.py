"""The rows of the launch form: groups that fold, and their fields with their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message

from remote.doctor.host_facts import FAILED, OK, WARNING
from remote.format import count
from remote.transport.registry import is_here
from training.registry import argument_prefix
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.choice_dialogs import ChoiceDialog
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.launch import script_fields
from tui.launch.cell_editor import CellEditor
from tui.launch.draft import HOSTS, MAIN, FieldMistake, LaunchDraft
from tui.launch.form_fields import OFF, ON, FormField, matches_choice
from tui.launch.host_marks import HostMark

SIGNS = {OK: "good", WARNING: "slow", FAILED: "bad", "": "work"}
INKS = {OK: "table--good", WARNING: "table--warn", FAILED: "table--bad", "": "table--dim"}
MANY_HOSTS = 8
"""So many hosts are listed at first; of more, only how many take part."""
DIGITS = "0123456789.-"
OPEN = (MAIN, HOSTS, script_fields.GROUP)
"""The groups that are open at first; of the others, those in which something is changed."""
CHANGED_SIGN = "*"
"""Stands before a value that is not the default."""
VALUE_WIDTH = (18, 30)
"""The least and the most columns of a value."""
SHOWN_IF_EMPTY = {
    "epochs": "1",
    "steps": "whole epochs",
    "program.cwd": "this folder",
}
"""What is shown in place of an empty text; otherwise "none"."""


@dataclass(frozen=True)
class FormRow:
    """A row: a field, or the head of its group."""

    group: str
    field: FormField | None = None

    @property
    def name(self) -> str:
        """Return the name of the field, or of the group."""
        return self.field.name if self.field else self.group


def _key_bindings() -> list[BindingType]:
    digits = [Binding(digit, f"begin({digit!r})", show=False) for digit in DIGITS]
    keys = (*bindings(KeyPlace.LIST), *bindings(KeyPlace.FIELD), *digits)
    # With priority, each key has its effect before the next one, which may be typed already.
    return [replace(key, priority=True) for key in keys if isinstance(key, Binding)]


class FormTable(ChoiceTable):
    """The fields of a draft, one row each, which are changed here."""

    place = KeyPlace.FIELD
    BINDINGS = _key_bindings()

    class Changed(Message):
        """A field has another text."""

    def __init__(self, draft: LaunchDraft, editor: CellEditor) -> None:
        super().__init__()
        self.draft = draft
        self._editor = editor
        self._groups = draft.groups()
        """The groups of the rows. They stay while a text is edited, so that no row moves then."""
        self._open = {*OPEN, *filter(draft.count_changed, self._groups)}
        if len(draft.hosts) > MANY_HOSTS:
            self._open.discard(HOSTS)
        self.form_rows: list[FormRow] = []
        self._mistakes: dict[str, str] = {}
        """What is wrong, in few words, by the names of fields and groups."""
        self._marks: Mapping[str, HostMark] = {}
        self._summary = ""
        self._batch_note = ""
        self._note_width = 0
        """The cells that a text in the last column may have."""

    @property
    def row(self) -> FormRow:
        """Return the row under the cursor."""
        return self.form_rows[self.cursor]

    def show_state(
        self,
        mistakes: Sequence[FieldMistake],
        marks: Mapping[str, HostMark],
        summary: str = "",
        batch_note: str = "",
    ) -> None:
        """Draw, with the mistakes, the marks of hosts by name, a summary of all hosts, and what the
        batch size amounts to."""
        # Reversed, as the last one of a key counts in a dict: a field shows its first mistake.
        self._mistakes = {mistake.field: mistake.short for mistake in reversed(mistakes)}
        self._marks = marks
        self._summary = summary
        self._batch_note = batch_note
        self.draw()

    def is_folded(self, group: str) -> bool:
        """Return True if only the head of a group is shown."""
        return group not in self._open

    def fold(self, group: str, is_folded: bool) -> None:
        """Fold or unfold a group; the cursor goes to its head."""
        self._open.add(group)
        if is_folded:
            self._open.discard(group)
        self.draw()
        self.cursor = self.form_rows.index(FormRow(group))

    def go_to(self, name: str) -> None:
        """Move the cursor to a field or a group, and unfold it."""
        for group, fields in self.draft.groups().items():
            if name == group or any(field.name == name for field in fields):
                self._open.add(group)
        self.draw()
        names = [row.name for row in self.form_rows]
        if name in names:
            self.cursor = names.index(name)

    @property
    def _value_region(self) -> Region:
        """Return where on the screen the value under the cursor stands."""
        x, y, width, _ = self.content_region
        label, value, _ = self._make_columns()
        # Below the head of the table, and behind the two cells that mark a change.
        line = self.cursor + 1 - self.scroll_offset.y
        return Region(x + label.width + 2, y + line, max(1, min(value.width, width) - 3), 1)

    def on_resize(self) -> None:
        self.draw()
        self._editor.move(self._value_region)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scroll. An edit ends, as the editor would stay where it is."""
        super().watch_scroll_y(old_value, new_value)
        self._editor.end()

    def draw(self) -> None:
        """Draw what has changed."""
        # Before the first layout, there is no width to divide into columns.
        if not self.size.width:
            return
        if not self._editor.is_editing:
            self._groups = self.draft.groups()
        if not self.form_rows:
            self._open_those_that_fit()
        columns = self._make_columns()
        self._note_width = columns[-1].width - 1
        form_rows = []
        rows = []
        for group, fields in self._groups.items():
            form_rows.append(FormRow(group))
            rows.append(self._make_head(group, fields))
            if not self.is_folded(group):
                form_rows += [FormRow(group, field) for field in fields]
                rows += map(self._make_row, fields)
        self.border_title = self._describe_changes()
        # The first row is the head of a group, which is nothing to change.
        name_at_cursor = (self.row if self.form_rows else form_rows[1]).name
        self.form_rows = form_rows
        self.show(columns, rows)
        # Other rows may have come or gone above it.
        names = [row.name for row in form_rows]
        if name_at_cursor in names:
            self.cursor = names.index(name_at_cursor)

    def _open_those_that_fit(self) -> None:
        """Open more groups, from the top, as long as there is room for all their rows."""
        if len(self.draft.hosts) > MANY_HOSTS:
            return
        # The first line is the head of the table.
        room = self.size.height - 1 - len(self._groups)
        room -= sum(len(self._groups.get(group, ())) for group in self._open)
        for group, fields in self._groups.items():
            if group not in self._open and len(fields) <= room:
                self._open.add(group)
                room -= len(fields)

    def _describe_changes(self) -> str:
        """Say what is shown, and how many settings are changed; their rows have the same sign."""
        changed = sum(map(self.draft.count_changed, self._groups))
        hosts_out = sum(self.draft.get_text(name) == OFF for name in self.draft.hosts)
        settings = changed - hosts_out
        state = f"{CHANGED_SIGN} {settings} changed" if settings else "all at their defaults"
        return f" new run: settings, {state} "

    def _make_columns(self) -> list[TableColumn]:
        """Return columns as wide as the fields need and the room allows, beside a scrollbar."""
        width = self.size.width
        labels = []
        for group, fields in self._groups.items():
            labels += [group, *(field.label for field in fields)]
        label = min(max(map(len, labels)) + 3, width * 2 // 5)
        least, most = VALUE_WIDTH
        value = max(least, min(most, (width - label) * 2 // 5))
        note = max(1, width - self.styles.scrollbar_size_vertical - label - value)
        widths = {"setting": label, "value": value, "": note}
        return [TableColumn(title, width, right=False) for title, width in widths.items()]

    # Rows

    def _make_head(self, group: str, fields: Sequence[FormField]) -> TableRow:
        """Return the head of a group, with what is changed and wrong in it."""
        is_folded = self.is_folded(group)
        changed = self.draft.count_changed(group)
        text = f"{CHANGED_SIGN} {changed} changed" if changed and is_folded else ""
        names = [field.label for field in fields] if is_folded else []
        note = TableCell(name_some(names, self._note_width), "table--dim")
        if group == HOSTS:
            text = self._describe_hosts(fields)
            note = TableCell(self._summary, "table--dim")
        wrong = sum(field.name in self._mistakes for field in fields)
        if wrong and is_folded:
            note = _make_bad_cell(count(wrong, "mistake"))
        elif not wrong and group in self._mistakes:
            note = self._make_mistake_cell(group)
        sign = palette.sign("closed" if is_folded else "open")
        head = TableCell(f"{sign} {group}", "table--strong")
        return head, TableCell(f"  {text}", "table--strong" if changed else ""), note

    def _make_mistake_cell(self, name: str) -> TableCell:
        """Return the mistake in a field or a group; the line below the rows has those too long."""
        text = self._mistakes[name]
        return _make_bad_cell(text if len(text) + 2 <= self._note_width else "mistake")

    def _describe_hosts(self, fields: Sequence[FormField]) -> str:
        texts = [self.draft.get_text(field.name) for field in fields]
        if not fields[0].is_switch:
            host = self.draft.cluster.hosts[0]
            return "this machine" if is_here([host]) else host.name
        return f"{texts.count(ON)} of {count(len(fields), 'host')}"

    def _make_row(self, field: FormField) -> TableRow:
        text = self.draft.get_text(field.name)
        is_changed = field.name in self.draft.texts
        host = self.draft.hosts.get(field.name)
        mark = self._marks.get(host.name) if host else None
        label = TableCell(f"  {field.label}")
        shown = self._format_text(field, text)
        value = f"{CHANGED_SIGN if is_changed else ' '} {shown}"
        ink = "table--strong" if is_changed else ""
        note = TableCell(self._describe_value(field), "table--dim")
        if host and field.is_switch:
            ink = "" if text == ON else "table--dim"
            label = TableCell(f"  {_tick(text)} {host.name}", ink)
            value = f"  {host.address}"
            note = TableCell(count(host.slots, "rank"), "table--dim")
        if field.name in self._mistakes:
            ink = "table--bad"
            note = self._make_mistake_cell(field.name)
        elif mark:
            note = TableCell(f"{palette.sign(SIGNS[mark.outcome])} {mark.text}", INKS[mark.outcome])
        return label, TableCell(value, ink), note

    def _format_text(self, field: FormField, text: str) -> str:
        """Return the text of a field as its row shows it."""
        steps = self.draft.get_text("steps")
        if field.name == "epochs" and not text and steps:
            return f"until {steps} steps"
        shown = _or_placeholder(field, text)
        return f"{_tick(text)} {shown}" if field.is_switch else shown

    def _describe_value(self, field: FormField) -> str:
        """Return what a number counts, how many choices there are, and the default of a changed
        field."""
        notes = [self._batch_note] if field.name == "batch_size" and self._batch_note else []
        if field.unit and not notes:
            notes.append(field.unit)
        if field.choices and not field.is_switch:
            notes.append(count(len(field.choices), "choice"))
        if field.name in self.draft.texts and field.name not in self.draft.hosts:
            default = self.draft.get_default(field.name)
            notes.insert(0, f"default: {_or_placeholder(field, default)}")
        # What does not fit is left out: cut, it would say nothing.
        while notes and len("; ".join(notes)) > self._note_width:
            notes.pop()
        return "; ".join(notes)

    # Changes

    def set_text(self, name: str, text: str) -> None:
        """Change the text of a field."""
        self.draft.set_text(name, text)
        self.post_message(self.Changed())

    def action_open(self) -> None:
        """Edit the field under the cursor, choose for it, or fold the group."""
        field = self.row.field
        if field is None or field.is_switch:
            self.action_fold()
        elif field.choices:
            self._choose(field)
        else:
            self._edit(field)

    def on_choice_table_chosen(self, event: ChoiceTable.Chosen) -> None:
        event.stop()
        self.action_open()

    def _choose(self, field: FormField) -> None:
        text = self.draft.get_text(field.name)
        matching = [choice for choice in field.choices if matches_choice(text, choice)]
        current = matching[-1] if matching else text
        dialog = ChoiceDialog(field.label, field.help, field.choices, current)
        self.app.push_screen(dialog, partial(self._take_choice, field))

    def _take_choice(self, field: FormField, choice: str | None) -> None:
        """Take a choice. One that is only a prefix is completed by typing."""
        if choice is None:
            return
        prefix = argument_prefix(choice)
        if not prefix:
            self.set_text(field.name, choice)
        elif self.draft.get_text(field.name).startswith(prefix):
            self._edit(field)
        else:
            self._edit(field, prefix)

    def _edit(self, field: FormField, typed: str = "") -> None:
        """Edit the text of the field under the cursor in its row. `typed` takes its place."""
        self._editor.edit(
            self.draft.get_text(field.name),
            self._value_region,
            partial(self.set_text, field.name),
            self._end_edit,
            typed,
            replaces_text=field.is_numeric,
        )

    def _end_edit(self, rows_down: int) -> None:
        """Take the keys again after a text was edited."""
        self.draw()
        self.cursor += rows_down
        # If the user has gone elsewhere meanwhile, as with the mouse, the focus stays there.
        if self.screen.focused in (None, self._editor):
            self.screen.set_focus(self)

    def action_begin(self, digit: str) -> None:
        """Begin the text of a field that takes a number; say so if it takes none."""
        field = self.row.field
        if field and field.is_numeric:
            self._edit(field, digit)
        else:
            label = field.label if field else self.row.group
            self.notify(f"{label} takes no number", timeout=2, markup=False)

    def action_fold(self) -> None:
        """Tick a switch or a host; fold or unfold a group."""
        field = self.row.field
        if field and field.is_switch:
            is_on = self.draft.get_text(field.name) == ON
            self.set_text(field.name, OFF if is_on else ON)
        else:
            group = self.row.group
            self.fold(group, not self.is_folded(group))

    def action_turn(self, step: int) -> None:
        """Take the next choice of a field; fold a group, or unfold it."""
        field = self.row.field
        if field is None:
            self.fold(self.row.group, step < 0)
            return
        choices = [choice for choice in field.choices if not argument_prefix(choice)]
        if choices:
            text = self.draft.get_text(field.name)
            number = choices.index(text) + step if text in choices else 0
            self.set_text(field.name, choices[number % len(choices)])

    def action_reset(self) -> None:
        """Give the field its default again; on the head of a group, all its fields."""
        row = self.row
        fields = [row.field] if row.field else self._groups[row.group]
        for field in fields:
            self.draft.set_text(field.name, self.draft.get_default(field.name))
        self.post_message(self.Changed())


def _make_bad_cell(text: str) -> TableCell:
    return TableCell(f"{palette.sign('bad')} {text}", "table--bad")


def _tick(text: str) -> str:
    return "[x]" if text == ON else "[ ]"


def _or_placeholder(field: FormField, text: str) -> str:
    return text or SHOWN_IF_EMPTY.get(field.name, "none")


def name_some(names: Sequence[str], room: int) -> str:
    """Return as many names as there is room for: "lenet5, vgg11, …"; "" if not even one fits."""
    for number in range(len(names), 0, -1):
        shown = [*names[:number], *(["…"] if number < len(names) else [])]
        text = ", ".join(shown)
        if len(text) <= room:
            return text
    return ""
