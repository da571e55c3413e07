"""The rows of a form that ask for the fields of `Job`, and what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field
from typing import Any

from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Label, Select, Static

from training import registry
from training.job import TYPES, JobError, choices, flag

ARGUMENT = "-argument"
"""The id of the line for a choice's argument is the field's name with this behind it."""


class Box(Checkbox):
    """A box to tick, which is empty where it is not ticked, and not only of another colour."""

    @property
    def BUTTON_INNER(self) -> str:  # type: ignore[override]
        """What stands in it."""
        return "X" if self.value else " "


class Flag(Box):
    """One that says beside it what it is: on or off."""

    def watch_value(self) -> None:
        """As ever, and the word follows."""
        self.label = "on" if self.value else "off"
        super().watch_value()


def heading(text: str) -> Static:
    """The line above a group of rows."""
    return Static(f"── {text} ──", classes="group", markup=False)


def labelled(label: str, control: Widget) -> Horizontal:
    """One row."""
    return Horizontal(Label(label, markup=False), control, classes="field")


class Argument(Horizontal):
    """A row for what a choice leaves open, such as NAME in `torchvision/NAME`; hidden where that is
    nothing. Its `name` is the field's.
    """

    def __init__(self, name: str, form: str, argument: str) -> None:
        super().__init__(name=name, classes="field")
        self._input = Input(argument, id=f"{name}{ARGUMENT}", compact=True)
        self._label = Label("", markup=False)
        self.ask(form)

    def compose(self) -> Iterator[Widget]:
        yield self._label
        yield self._input

    def ask(self, form: str) -> None:
        """Ask for what this form leaves open."""
        prefix = registry.prefix(form)
        self.display = bool(prefix)
        self._label.update(f"  {prefix}")
        self._input.placeholder = form.removeprefix(prefix)


def controls(setting: Field[Any], value: Any) -> Iterator[Widget]:
    """The rows of a field: a choice, a box to tick or a line of text, with the field's name as its
    id."""
    label, folder = flag(setting).removeprefix("--"), setting.metadata["folder"]
    known = choices(setting)
    if not known:
        yield labelled(label, _line(setting, value))
        return
    form = registry.form_of(folder, value) if folder else value
    yield labelled(
        label,
        Select(
            [(name, name) for name in known],
            value=form,
            allow_blank=False,
            id=setting.name,
            compact=True,
        ),
    )
    if any(registry.prefix(name) for name in known):
        yield Argument(
            setting.name, form, value.removeprefix(registry.prefix(form)) if value != form else ""
        )


def _line(setting: Field[Any], value: Any) -> Widget:
    kind = TYPES[str(setting.type)]
    if kind is bool:
        return Flag("on" if value else "off", value, id=setting.name, compact=True)
    if kind is int:
        shown = "" if value is None else str(value)
        return Input(shown, type="integer", valid_empty=True, id=setting.name, compact=True)
    if kind is float:
        return Input(str(value), type="number", id=setting.name, compact=True)
    if kind is tuple:
        return Input(
            " ".join(value), placeholder="key=value key=value", id=setting.name, compact=True
        )
    return Input(str(value), id=setting.name, compact=True)


def value(form: Widget, setting: Field[Any]) -> Any:
    """What the form says of a field. Raises: JobError, where a number is none."""
    control = form.query_one(f"#{setting.name}")
    if isinstance(control, Checkbox):
        return control.value
    if isinstance(control, Select):
        prefix = registry.prefix(str(control.value))
        return (
            prefix + form.query_one(f"#{setting.name}{ARGUMENT}", Input).value
            if prefix
            else control.value
        )
    assert isinstance(control, Input)
    kind = TYPES[str(setting.type)]
    if setting.default is None and not control.value:
        return None
    try:
        return tuple(control.value.split()) if kind is tuple else kind(control.value)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise JobError(f"{flag(setting)} {control.value!r}: write {what}") from None
