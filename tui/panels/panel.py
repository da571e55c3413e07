"""What all panels are: a title, and `show`, which takes over from a run what the panel draws."""

from __future__ import annotations

from typing import ClassVar

from textual.containers import Container
from textual.content import Content

from remote.plan.plan import Plan
from remote.run.state import RunState


class Panel(Container):
    """A part of the run screen. `title` stands in its upper border, after the number of the key
    that leads to it."""

    DEFAULT_CSS = """
    Panel { border-top: solid $primary 40%; border-title-color: $text-muted; height: 1fr; }
    Panel:focus-within {
        border-top: solid $primary; border-title-color: $text; border-title-style: bold;
    }
    """
    ALLOW_MAXIMIZE = True
    title: ClassVar[str]
    number = 0

    @classmethod
    def suits(cls, plan: Plan) -> bool:
        """Whether there is anything to show for such a run."""
        return True

    def show(self, run: RunState) -> None:
        """Take over what is drawn from the run. Called with its lock held: copies, and draws
        later."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.caption()

    def caption(self, note: Content | str = "") -> None:
        """Write the title, and a note after it."""
        head = f"{self.number} {self.title}" if self.number else self.title
        caption = Content.assemble(f" {head}", "  " if note else "", note, " ")
        if self._border_title is None or not caption.is_same(
            self._border_title
        ):  # the same text in other colours is another
            self.border_title = caption
