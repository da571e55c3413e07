"""Which requests `rankboard serve` answers."""

from __future__ import annotations

import pytest

from tests.kit.commands import run
from tui.serve.guard import Guard
from tui.serve.page import make_page

assert run  # the fixture
GUARD = Guard()
GOOD = GUARD.token


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "127.0.0.1", "localhost:22"])
def test_who_knows_the_address_is_let_in(host: str) -> None:
    assert GUARD.admits(GOOD, host, None)
    assert GUARD.admits(GOOD, host, f"http://{host}")


def test_no_other_token_is() -> None:
    near = (GOOD[:-1], GOOD + "x", GOOD.swapcase())
    for token in ("", "x", *near, "é", "\udcff", "x" * 100_000):
        assert not GUARD.admits(token, "localhost:8000", None), token


@pytest.mark.parametrize(
    "host",
    ["", "evil.com", "evil.com:8000", "127.0.0.1.evil.com", "localhost:80@evil.com", "[::1]:80"],
)
def test_no_name_that_somebody_pointed_here_is(host: str) -> None:
    assert not GUARD.admits(GOOD, host, None)
    assert not GUARD.admits(GOOD, host, f"http://{host}")


@pytest.mark.parametrize(
    "origin", ["http://evil.com", "null", "", "https://localhost:8000", "http://localhost:8001"]
)
def test_no_page_of_another_server_is(origin: str) -> None:
    assert not GUARD.admits(GOOD, "localhost:8000", origin)


def test_every_server_has_a_token_of_its_own_that_nobody_guesses() -> None:
    tokens = {Guard().token for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 43 for token in tokens), "32 bytes"


def test_the_page_loads_nothing_from_elsewhere_and_shows_a_name_as_text() -> None:
    text = make_page('<script>"&', "ws://localhost:1/x/ws", 4)
    assert "<title>&lt;script&gt;&quot;&amp;</title>" in text
    assert "http:" not in text
    assert "https:" not in text
