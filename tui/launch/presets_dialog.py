"""The dialog of presets and recent jobs, and what the launch form does with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from remote.format import moment
from remote.plan.plan import Script
from tui.kit.actions import Place
from tui.kit.background import run_in_background
from tui.kit.bindings import bindings, key_of
from tui.kit.choice_dialogs import CSS, TextPrompt
from tui.launch import presets
from tui.launch.draft import CheckedDraft, LaunchDraft
from tui.launch.presets import Preset, PresetError
from tui.launch.recent_work import Recent, recent


class PresetsDialog(ModalScreen[Preset | Recent | None]):
    """Presets, then jobs of recorded runs; the result is what the form takes over."""

    DEFAULT_CSS = CSS.format("PresetsDialog")
    CSS = "PresetsDialog Vertical { width: 60%; min-width: 76; }"
    place = Place.PRESETS
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, keep: bool, recent: Callable[[], list[Recent]]) -> None:
        """`keep`: see `presets.save`. `recent` reads the recorded runs, in a thread."""
        super().__init__()
        self._keep = keep
        self._read = recent
        self._recent: list[Recent] | None = None
        self._names: list[str] = []
        self._asked = ""

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "presets and recent jobs"
            box.border_subtitle = key_of(self.app, "back")
            yield OptionList()
            yield Static(self._help, markup=False)

    @property
    def _help(self) -> str:
        return f"enter: take the settings; the hosts stay. {self._delete}: delete a preset."

    @property
    def _delete(self) -> str:
        return key_of(self.app, "delete-preset")

    def on_mount(self) -> None:
        self._list()
        self.query_one(OptionList).focus()
        run_in_background(self, self._read, self._take)

    def _take(self, found: list[Recent]) -> None:
        self._recent = found
        self._list()

    def _list(self) -> None:
        """Show all, and keep the place."""
        shown = self.query_one(OptionList)
        at = shown.highlighted or 0
        self._names = presets.names()
        shown.clear_options()
        shown.add_options([Option(Content(name), id=f"preset-{name}") for name in self._names])
        if not self._names:
            shown.add_option(Option("no preset yet: save one from the form", disabled=True))
        shown.add_option(None)
        shown.add_options(self._recents())
        if shown.option_count:
            shown.highlighted = min(at, shown.option_count - 1)

    def _recents(self) -> list[Option]:
        if self._recent is None:
            return [Option("reading the recorded runs …", disabled=True)]
        if not self._recent:
            return [Option("no job is recorded yet", disabled=True)]
        return [
            Option(Content(_described(one)), id=f"recent-{number}")
            for number, one in enumerate(self._recent)
        ]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        kind, _, name = (event.option.id or "").partition("-")
        if kind == "recent" and self._recent:
            self.dismiss(self._recent[int(name)])
            return
        try:
            self.dismiss(presets.load(name, self._keep))
        except PresetError as error:
            self._say(str(error))

    def action_delete(self) -> None:
        """Delete the chosen preset, at the second press."""
        name = self._chosen()
        if not name:
            return
        if self._asked != name:
            self._asked = name
            self._say(f"delete {name!r}? press {self._delete} once more")
            return
        try:
            presets.delete(name)
        except OSError as error:
            self._say(f"cannot delete {name!r}: {error}")
        else:
            self._list()
            self._say(f"{name!r} is deleted")

    def on_option_list_option_highlighted(self) -> None:
        if self._asked:
            self._asked = ""
            self._say(self._help)

    def _chosen(self) -> str:
        """The preset under the cursor; "" where it is on none."""
        shown = self.query_one(OptionList)
        if shown.highlighted is None:
            return ""
        kind, _, name = (shown.get_option_at_index(shown.highlighted).id or "").partition("-")
        return name if kind == "preset" else ""

    def _say(self, text: str) -> None:
        self.query_one(Static).update(text)

    def action_move(self, action: str) -> None:
        getattr(self.query_one(OptionList), f"action_{action}")()

    def action_back(self) -> None:
        self.dismiss(None)


def _described(one: Recent) -> str:
    """When it ran, how it ended, and what it was."""
    if isinstance(one.work, Script):
        words = f"-- {one.work.command_line()}"
    else:
        words = " ".join(one.work.flags()) or "the defaults"
    return f"{moment(one.run.started or 0)}  {one.run.verdict:8}  {words}"


class PresetForm(Screen[None]):
    """A form whose settings are saved as presets, and taken from presets and recent jobs.
    `checked` is what the `draft` amounts to; recent jobs are those of the runs in `runs_dir`."""

    draft: LaunchDraft
    checked: CheckedDraft
    runs_dir: Path

    def changed(self) -> None:
        """Other settings were taken."""
        raise NotImplementedError

    def action_presets(self) -> None:
        """Choose a preset or a recent job."""
        read = partial(recent, self.runs_dir)
        self.app.push_screen(PresetsDialog(self.draft.keep, read), self._take)

    def _take(self, chosen: Preset | Recent | None) -> None:
        if isinstance(chosen, Recent):
            self.draft.fill(chosen.work)
        elif chosen:
            self.draft.fill(chosen.work)
            self.draft.fill_policy(chosen.policy)
        if chosen:
            self.changed()

    def action_save(self) -> None:
        """Save the settings as a preset, under a name."""
        if self.checked.plan is None:
            self.notify("correct the mistakes before you save a preset", severity="warning")
            return
        known = ", ".join(presets.names()) or "none yet"
        help = f"A preset keeps all settings but the hosts, under a name. There are: {known}"
        self.app.push_screen(TextPrompt("save as preset", help), self._save)

    def _save(self, name: str | None) -> None:
        try:
            if name and (work := self.draft.work()):
                preset = Preset(work, self.checked.policy)
                file = presets.save(name, preset, self.draft.keep)
                self.notify(f"saved in {file}", markup=False)
        except (PresetError, OSError) as error:
            self.notify(f"not saved: {error}", severity="error", markup=False)
