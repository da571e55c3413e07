"""The dialog of presets and recent jobs, and what the launch form does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from remote.format import moment
from remote.plan.plan import Script
from tui.kit.actions import KeyPlace
from tui.kit.background import run_in_background
from tui.kit.bindings import bindings, key_of
from tui.kit.choice_dialogs import BoxDialog, TextPrompt
from tui.kit.dialogs import DeleteDialog, Leave
from tui.launch import presets
from tui.launch.draft import CheckedDraft, LaunchDraft
from tui.launch.presets import Preset, PresetError
from tui.launch.recent_work import RecentWork, list_recent_work


class PresetsDialog(BoxDialog[Preset | RecentWork]):
    """Presets, then jobs of recorded runs; the result is what the form takes over."""

    DEFAULT_CSS = "PresetsDialog Vertical { width: 90%; min-width: 76; }"
    place = KeyPlace.PRESETS
    BINDINGS = bindings(place)

    def __init__(self, keep: bool, read_recent: Callable[[], list[RecentWork]]) -> None:
        """`keep`: see `presets.save`. `read_recent` runs in a thread."""
        super().__init__("presets and recent jobs")
        self._keep = keep
        self._read_recent = read_recent
        self._recent: list[RecentWork] | None = None
        self._choices: list[str | RecentWork] = []
        """Names of presets, then jobs: an option's id is its number here."""

    def compose_box(self) -> Iterable[Widget]:
        yield OptionList()
        key = key_of(self.app, "delete-preset")
        text = f"enter: take the settings; the hosts stay. {key}: delete a preset."
        yield Static(text, markup=False)

    def on_mount(self) -> None:
        self._show_options()
        self.query_one(OptionList).focus()
        run_in_background(self, self._read_recent, self._take_recent)

    def _take_recent(self, recent: list[RecentWork]) -> None:
        self._recent = recent
        self._show_options()

    def _show_options(self) -> None:
        """Show all options, and keep the cursor at its place."""
        options = self.query_one(OptionList)
        cursor = options.highlighted or 0
        names = presets.list_names()
        self._choices = [*names, *(self._recent or ())]
        options.clear_options()
        options.add_options(map(self._make_option, range(len(names))))
        if not names:
            options.add_option(Option("no preset yet: save one from the form", disabled=True))
        # None makes Textual draw a line between the presets and the jobs.
        options.add_option(None)
        options.add_options(map(self._make_option, range(len(names), len(self._choices))))
        if not self._recent:
            is_read = self._recent is not None
            text = "no job is recorded yet" if is_read else "reading the recorded runs …"
            options.add_option(Option(text, disabled=True))
        options.highlighted = min(cursor, options.option_count - 1)

    def _make_option(self, number: int) -> Option:
        choice = self._choices[number]
        text = choice if isinstance(choice, str) else _describe(choice)
        # Textual would read brackets in a plain str as markup, and a command line may have some.
        return Option(Content(text), id=str(number))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        choice = self._choices[int(event.option.id or 0)]
        try:
            preset = presets.load(choice, self._keep) if isinstance(choice, str) else choice
        except PresetError as error:
            self._show_text(str(error))
        else:
            self.dismiss(preset)

    def action_delete(self) -> None:
        """Delete the chosen preset, once the user confirms it."""
        option = self.query_one(OptionList).highlighted_option
        if option is None or option.id is None:
            return
        choice = self._choices[int(option.id)]
        if isinstance(choice, str):
            question = f"Delete the preset {choice!r}?"
            self.app.push_screen(DeleteDialog(question), partial(self._delete, choice))

    def _delete(self, name: str, answer: Leave | None) -> None:
        if answer is not Leave.DELETE:
            return
        try:
            presets.delete(name)
        except OSError as error:
            self._show_text(f"cannot delete {name!r}: {error}")
        else:
            self._show_options()
            self._show_text(f"{name!r} is deleted")

    def _show_text(self, text: str) -> None:
        self.query_one(Static).update(text)


def _describe(recent: RecentWork) -> str:
    """Return when the work ran, how the run ended, and what it was."""
    if isinstance(recent.work, Script):
        words = f"-- {recent.work.command_line()}"
    else:
        words = " ".join(recent.work.flags()) or "the defaults"
    return f"{moment(recent.run.started or 0)}  {recent.run.verdict:8}  {words}"


class PresetForm(Screen[None]):
    """A form whose settings are saved as presets, and taken from presets and recent jobs."""

    draft: LaunchDraft
    checked: CheckedDraft
    """What the draft amounts to."""
    runs_dir: Path
    """Where the recent jobs are recorded."""

    def take_changes(self) -> None:
        """Check and show the draft after a change."""
        raise NotImplementedError

    def action_presets(self) -> None:
        """Choose a preset or a recent job."""
        read_recent = partial(list_recent_work, self.runs_dir)
        self.app.push_screen(PresetsDialog(self.draft.keep, read_recent), self._take_settings)

    def _take_settings(self, chosen: Preset | RecentWork | None) -> None:
        if chosen is None:
            return
        self.draft.fill_work(chosen.work)
        if isinstance(chosen, Preset):
            self.draft.fill_policy(chosen.policy)
        self.take_changes()

    def action_save(self) -> None:
        """Save the settings as a preset, under a name."""
        if self.checked.ready is None:
            self.notify("correct the mistakes before you save a preset", severity="warning")
            return
        names = ", ".join(presets.list_names()) or "none yet"
        help = f"A preset keeps all settings but the hosts, under a name. There are: {names}"
        self.app.push_screen(TextPrompt("save as preset", help), self._save)

    def _save(self, name: str | None) -> None:
        ready = self.checked.ready
        if not name or ready is None:
            return
        try:
            file = presets.save(name, Preset(ready.work, ready.policy), self.draft.keep)
        except (PresetError, OSError) as error:
            self.notify(f"not saved: {error}", severity="error", markup=False)
        else:
            self.notify(f"saved in {file}", markup=False)
