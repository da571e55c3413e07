"""The strip with a verdict: what it says, and that the footer shows its keys first."""

from __future__ import annotations

import pytest
from textual.app import ComposeResult
from textual.binding import Binding

from tests.kit.acted import until
from tests.kit.looks import screen_text
from tui.kit.themes import InkedApp
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.verdict_strip import (
    NextKey,
    Severity,
    VerdictStrip,
    draw_next_keys,
    draw_verdict,
)

RESUME = NextKey("r", "resume from checkpoint 150")


class StripApp(InkedApp[None]):
    BINDINGS = [  # noqa: RUF012
        Binding("z", "zoom", "Zoom"),
        Binding("r", "resume", "Resume"),
        Binding("y", "copy", "Copy", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield VerdictStrip()
        yield KeyFooter()

    def action_zoom(self) -> None: ...

    action_resume = action_copy = action_zoom


async def test_the_footer_shows_the_keys_of_the_verdict_first() -> None:
    app = StripApp()
    async with app.run_test(size=(60, 10)) as pilot:
        await until(pilot, lambda: "z Zoom  r Resume" in screen_text(app))
        strip = app.query_one(VerdictStrip)
        strip.show(Severity.BAD, "failed", ["memory: 3 GiB"], [NextKey("y", "copy"), RESUME])
        await until(pilot, lambda: "y Copy  r Resume  z Zoom" in screen_text(app))
        assert "✗ failed" in screen_text(app)
        assert "▶ y copy   r resume from checkpoint 150" in screen_text(app)
        strip.show(Severity.GOOD, "")
        await until(pilot, lambda: "z Zoom  r Resume" in screen_text(app))
        assert "failed" not in screen_text(app)


def test_keys_that_do_nothing_or_have_no_room_are_left_out() -> None:
    keys = [NextKey("", "nothing"), RESUME, NextKey("n", "new run")]
    whole_line = draw_next_keys(keys)
    assert whole_line is not None
    assert whole_line.plain == "▶ r resume from checkpoint 150   n new run"
    short_line = draw_next_keys(keys, 35)
    assert short_line is not None
    assert short_line.plain == "▶ r resume from checkpoint 150"
    assert draw_next_keys([NextKey("", "nothing")]) is None


def test_a_key_that_is_no_remedy_is_not_marked_as_advised() -> None:
    hide = NextKey("a", "hide", is_remedy=False)
    lines = [draw_next_keys(keys) for keys in ([hide], [hide, RESUME], [RESUME, hide])]
    assert [line.plain for line in lines if line] == [
        "a hide",
        "a hide   r resume from checkpoint 150",
        "▶ r resume from checkpoint 150   a hide",
    ]


def test_what_is_proven_stands_above_a_warning_in_its_own_ink() -> None:
    proof = "A and B compute the same numbers"
    verdict = draw_verdict(Severity.WARN, "too short", ["C failed"], (), 30, proof=proof)
    assert verdict.plain.splitlines() == [
        "✓ A and B compute the same",
        "numbers",
        "▲ too short",
        "C failed",
    ]
    inks = {verdict.plain[span.start : span.end]: span.style for span in verdict.spans}
    assert inks["numbers"] == "bold $text-success"
    assert inks["▲ too short"] == "bold $text-warning"


def test_a_line_is_broken_between_words_but_not_before_a_unit() -> None:
    verdict = draw_verdict(
        Severity.GOOD, "B reaches 90% in 3 s, A in 6 s of all", ["ends: 4 KiB"], (), 28
    )
    assert verdict.plain.splitlines() == [
        "✓ B reaches 90% in 3 s, A in",
        "6 s of all",
        "ends: 4 KiB",
    ]
    verdict = draw_verdict(Severity.GOOD, "B reaches 90% in 3 s", (), (), 20)
    assert verdict.plain.splitlines() == ["✓ B reaches 90% in", "3 s"]


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (60, "▶ R resume from 125 (25 lost)   ! next   y copy"),
        (38, "▶ R resume from 125   ! next   y copy"),
        (24, "▶ R resume from 125 (25 lost)"),
    ],
)
def test_keys_have_shorter_texts_where_more_of_them_fit_then(width: int, text: str) -> None:
    next_keys = [
        NextKey("R", "resume from 125 (25 lost)", "resume from 125"),
        NextKey("!", "next"),
        NextKey("y", "copy"),
    ]
    line = draw_next_keys(next_keys, width)
    assert line is not None
    assert line.plain == text
