"""What is the matter, in a strip with a bar at its left: what holds, why, and which keys help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from remote.sanitise import plain
from tui.kit import palette
from tui.kit.inks import MUTED

ACCENT = "bold $text-accent"
KEY_GAP = "   "
FRAME_WIDTH = 3
"""Columns of the bar and of the padding."""
BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|steps?|points?|[KMGT]iB|[KMG]?bit/s)(?!\w))")
"""The space between a number and its unit, at which no line breaks."""
WORD = re.compile(r"[^ \n]+ *")


class Severity(StrEnum):
    """How bad it is. Its value is the style class of the strip."""

    GOOD = "-good"
    NEUTRAL = "-neutral"
    WARN = "-warn"
    BAD = "-bad"


SIGN_NAMES = {Severity.GOOD: "good", Severity.WARN: "slow", Severity.BAD: "bad"}
TITLE_STYLES = {
    Severity.GOOD: "bold $text-success",
    Severity.NEUTRAL: "bold",
    Severity.WARN: "bold $text-warning",
    Severity.BAD: "bold $text-error",
}

Reason = str | Content
"""A line below the verdict; content where it has styles of its own."""


class NextKey(NamedTuple):
    """A key that helps, and what it does here: "R", "resume from checkpoint 150"."""

    key: str
    text: str
    short_text: str = ""
    """What it does in fewer words, where the line has no room for all keys."""
    leads_footer: bool = True
    """The footer shows it before all keys that no verdict names."""
    is_remedy: bool = True
    """It does something about what the verdict says. One that does not never stands out."""


_Shown = tuple[Severity, str | Content, Sequence[Reason], Sequence[NextKey], bool, str, int]


class VerdictStrip(Static):
    """A verdict in bold, its reasons below it, and the keys that help in the last line. Without a
    verdict it is hidden. The footer of its screen shows the same keys first."""

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    VerdictStrip {
        display: none; height: auto; padding: 0 1;
        border-left: outer $ink-rule; background: $panel;
    }
    VerdictStrip.-good { border-left: outer $success; background: $success 12%; }
    VerdictStrip.-warn { border-left: outer $warning; background: $warning 12%; }
    VerdictStrip.-bad { border-left: outer $error; background: $error 12%; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(markup=False, id=id)
        self._shown: _Shown | None = None
        self._height = 0
        self.helpful_keys: tuple[str, ...] = ()
        """The keys that it names and that lead the footer, in their order."""

    def show(
        self,
        severity: Severity,
        title: str | Content,
        reasons: Sequence[Reason] = (),
        next_keys: Sequence[NextKey] = (),
        *,
        is_calm: bool = False,
        proof: str = "",
    ) -> None:
        """Show a verdict; without a title, hide. Parts of a title may have styles of their own.
        `proof` is what is certain nevertheless, above it.

        Keys that are "" do nothing here and are left out; the first of the others stands out,
        unless it is no remedy, or the strip `is_calm`: there is nothing to do."""
        # While hidden, the widget has no width.
        width = self.content_size.width or self.app.size.width - FRAME_WIDTH
        shown = severity, title, tuple(reasons), tuple(next_keys), is_calm, proof, width
        if shown == self._shown:
            return
        self._shown = shown
        self.display = bool(title)
        for other in Severity:
            self.set_class(other is severity, other.value)
        verdict = draw_verdict(
            severity, title, reasons, next_keys, width, is_calm=is_calm, proof=proof
        )
        # Most changes are of figures; a layout draws the whole screen.
        height = verdict.get_height({}, width)
        self.update(verdict, layout=height != self._height)
        self._height = height
        helpful_keys = tuple(
            next_key.key
            for next_key in next_keys
            if title and next_key.key and next_key.leads_footer
        )
        if helpful_keys != self.helpful_keys:
            self.helpful_keys = helpful_keys
            if self.is_attached:  # else the screen is being removed
                self.screen.refresh_bindings()

    def on_resize(self, event: Resize) -> None:
        # Lines are broken for a width.
        if self._shown:
            self.show(*self._shown[:4], is_calm=self._shown[4], proof=self._shown[5])


def draw_verdict(
    severity: Severity,
    title: str | Content,
    reasons: Sequence[Reason],
    next_keys: Sequence[NextKey],
    width: int = 0,
    *,
    is_calm: bool = False,
    proof: str = "",
) -> Content:
    """Return a verdict, its reasons and the keys that help, in lines, below what is proven
    nevertheless. `width` and `is_calm`: see `draw_next_keys`. A calm one without keys is dim."""
    lines = []
    if proof:
        proof_line = _draw_sentence(Severity.GOOD, Content(plain(proof)))
        lines += fold_line(proof_line.stylize_before(TITLE_STYLES[Severity.GOOD]), width)
    is_quiet = is_calm and severity is Severity.NEUTRAL and not next_keys
    title_style = MUTED if is_quiet else TITLE_STYLES[severity]
    title_content = Content(plain(title)) if isinstance(title, str) else title
    title_line = _draw_sentence(severity, title_content)
    lines += fold_line(title_line.stylize_before(title_style), width)
    for reason in reasons:
        lines += fold_line(Content(plain(reason)) if isinstance(reason, str) else reason, width)
    if key_line := draw_next_keys(next_keys, width, is_calm=is_calm):
        lines.append(key_line)
    return Content("\n").join(lines)


def _draw_sentence(severity: Severity, sentence: Content) -> Content:
    """Return a sentence behind the sign of its severity."""
    sign_name = SIGN_NAMES.get(severity)
    sign = f"{palette.sign(sign_name)} " if sign_name else ""
    return Content.assemble(sign, sentence)


def fold_line(line: Content, width: int) -> list[Content]:
    """Break a line where it is wider than `width`, but not between a number and its unit."""
    if not width or line.cell_length <= width or "\n" in line.plain:
        return [line]
    text = BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", line.plain)
    breaks = []
    begin = 0
    for word in WORD.finditer(text):
        if cell_len(text[begin : word.end()].rstrip(" ")) > width and word.start() > begin:
            begin = word.start()
            breaks.append(begin)
    return [part.rstrip() for part in line.divide(breaks)]


def draw_next_keys(
    next_keys: Sequence[NextKey], width: int = 0, *, is_calm: bool = False
) -> Content | None:
    """Return the keys that help in a line, the first of them marked: "▶ R resume   n new run";
    none where it is no remedy, or the strip `is_calm`.

    Those for which there is no room in `width` columns are left out, 0 for room enough; so many of
    the first have their short texts that there is room for most of them.
    """
    keys = [next_key for next_key in next_keys if next_key.key]
    short_keys = [next_key._replace(text=next_key.short_text or next_key.text) for next_key in keys]
    choices = [
        _draw_keys([*short_keys[:num_short], *keys[num_short:]], width, is_calm=is_calm)
        for num_short in range(len(keys) + 1)
    ]
    parts = max(choices, key=len)
    return Content("").join(parts) if parts else None


def _draw_keys(keys: Sequence[NextKey], width: int, *, is_calm: bool) -> list[Content]:
    """Return as many keys as there is room for, each with the gap before it."""
    parts = list[Content]()
    room = width
    for next_key in keys:
        is_marked = not parts and next_key.is_remedy and not is_calm
        gap = f"{palette.sign('playing')} " if is_marked else KEY_GAP if parts else ""
        text_style = "bold" if is_marked else ""
        part = Content.assemble(
            (f"{gap}{next_key.key}", ACCENT), (f" {plain(next_key.text)}", text_style)
        )
        room -= part.cell_length
        if parts and width and room < 0:
            break
        parts.append(part)
    return parts
