"""`rankboard serve`: a run in a browser of this machine, for those who know the address, and for
nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest

from remote.events import SessionClosed
from tests.kit.commands import Done, run
from tests.kit.histories import History, plan
from tests.kit.launches import RANKBOARD
from tests.kit.recorded import recorded
from tests.kit.wait import looks
from tui.commands import serve as command

aiohttp = pytest.importorskip("aiohttp", reason="pip install rankboard[serve]")
pytest.importorskip("textual_serve", reason="pip install rankboard[serve]")
from tests.kit.browser import CHROMIUM, browser  # noqa: E402 - needs aiohttp
from tui.serve.server import FULL, MAX_PAGES, REFUSED  # noqa: E402

Run = Callable[..., Done]
assert run  # the fixture
PLAN = plan(2)


class Served(NamedTuple):
    """A server, and the address that it has printed."""

    process: subprocess.Popen[str]
    address: str
    folder: Path

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def path(self) -> str:
        return urlsplit(self.address).path

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        """The status and the text of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def visitors(self) -> list[psutil.Process]:
        """The processes that draw for pages."""
        return psutil.Process(self.process.pid).children(recursive=True)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    """A server of a run that has ended, with these options, in this folder."""
    history = History(PLAN).training(steps=5).done(0, 1).session(SessionClosed())
    run = recorded(folder / "runs", history)
    process = subprocess.Popen(
        [RANKBOARD, "serve", "last", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        yield Served(process, process.stdout.readline().strip(), run)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(params=[()])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A server of a test's own: it counts visitors, or ends the server."""
    with serving(tmp_path, *request.param) as one:
        yield one


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that is only asked for pages, and so is the same for every test."""
    with serving(tmp_path_factory.mktemp("served")) as one:
        yield one


def socket_of(served: Served) -> str:
    return f"ws{served.address.removeprefix('http')}ws?width=100&height=30"


def test_who_knows_the_address_gets_the_page_and_what_it_loads(asked: Served) -> None:
    assert asked.address.startswith("http://127.0.0.1:")
    status, text = asked.get(asked.path)
    assert status == 200
    assert f"<title>rankboard: {PLAN.run}</title>" in text
    for name in ("static/textual.js", "static/xterm.css", "static/mono.ttf"):
        assert name in text
        assert asked.get(asked.path + name)[0] == 200


@pytest.mark.parametrize("rest", ["", "ws", "static/textual.js", "download/x"])
def test_without_the_token_every_request_is_refused(asked: Served, rest: str) -> None:
    token = asked.path.strip("/")
    for wrong in ("", "x", token[:-1], token + "x", f"%2e%2e/{token}", "é".encode().hex()):
        assert asked.get(f"/{wrong}/{rest}") == (403, REFUSED)
        assert asked.get(f"/{wrong}/{rest}?{token}", "POST") == (403, REFUSED)


def test_other_names_and_origins_are_refused(asked: Served) -> None:
    for name in ("evil.com", f"evil.com:{asked.port}", "127.0.0.1.evil.com"):
        assert asked.get(asked.path, Host=name) == (403, REFUSED)
    for origin in ("http://evil.com", "null", f"https://127.0.0.1:{asked.port}"):
        assert asked.get(f"{asked.path}ws", Origin=origin) == (403, REFUSED)


def test_nothing_but_the_page_is_there_and_nothing_but_get_is_answered(asked: Served) -> None:
    for rest in ("x", "static/", "static/../server.py", "static/%2e%2e/server.py", "static//etc"):
        assert asked.get(asked.path + rest)[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert asked.get(asked.path, method)[0] == 405


def test_other_machines_reach_nothing(asked: Served) -> None:
    (found,) = {
        one.laddr.ip
        for one in psutil.Process(asked.process.pid).net_connections()
        if one.status == psutil.CONN_LISTEN
    }
    assert found == "127.0.0.1"


async def test_a_page_shows_the_run_and_acts_on_nothing(served: Served) -> None:
    before = {path: path.stat().st_mtime_ns for path in served.folder.parent.parent.rglob("*")}
    async with aiohttp.ClientSession() as session, session.ws_connect(socket_of(served)) as page:
        seen = await drawn(page, "finished in") + await drawn(page, "Help")
        assert not seen.isascii()
        await page.send_str("no json but [")  # a page that is not ours is closed
        assert (await closed(page)).type is aiohttp.WSMsgType.CLOSE
    async with aiohttp.ClientSession() as session, session.ws_connect(socket_of(served)) as page:
        await drawn(page, "finished in")
        for said in (["x"], {"a": 1}, 3, ["resize", {"width": "1"}], ["resize", {"width": 1e9}]):
            await page.send_str(json.dumps(said))
        for key in "WYe":  # a chart, lines of the log, a screenshot: they would be files
            await page.send_str(json.dumps(["stdin", key]))
        await drawn(page, "no files can be saved from a browser")
        for key in "C!":  # no list of other runs comes before that of alerts
            await page.send_str(json.dumps(["stdin", key]))
        await drawn(page, "There are none.")
        await page.send_str(json.dumps(["stdin", "\r"]))
        await page.send_str(json.dumps(["ping", 7]))
        assert (await answered(page)) == ["pong", 7]
        await page.send_str(json.dumps(["stdin", "q"]))
        await closed(page)
    await gone(served)
    after = {path: path.stat().st_mtime_ns for path in served.folder.parent.parent.rglob("*")}
    assert after == before, "no file was made or changed"


@pytest.mark.parametrize("served", [("--ascii",)], indirect=True)
async def test_a_page_is_drawn_in_ascii_where_that_is_asked_for(served: Served) -> None:
    async with aiohttp.ClientSession() as session, session.ws_connect(socket_of(served)) as page:
        seen = await drawn(page, "finished in") + await drawn(page, "Help")
        assert seen.isascii()
        await end_with_visitors(served, signal.SIGHUP)
    assert served.process.returncode == 0


async def test_visitors_are_bounded_and_leave_nothing(served: Served) -> None:
    """One that sends what is nested too deeply is closed alone."""
    async with aiohttp.ClientSession() as session:
        pages = [await session.ws_connect(socket_of(served)) for _ in range(MAX_PAGES)]
        for page in pages:
            await drawn(page, "finished in")
        answer = await session.get(socket_of(served).replace("ws:", "http:"))
        assert (answer.status, await answer.text()) == (503, FULL)
        assert len(served.visitors()) == MAX_PAGES
        assert served.get(served.path)[0] == 200, "the page itself takes no place"
        await pages[0].send_str("[" * 60_000)
        assert (await closed(pages[0])).type is aiohttp.WSMsgType.CLOSE
        await pages[1].close()
        for place in range(2):
            pages[place] = await session.ws_connect(socket_of(served))
            await drawn(pages[place], "finished in")
        await end_with_visitors(served, signal.SIGINT)
    assert served.process.returncode == 0
    assert "Traceback" not in served.process.communicate(timeout=60)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_visitors_end_with_the_server(served: Served, number: signal.Signals) -> None:
    """Also one that is too busy to hear of it."""
    async with aiohttp.ClientSession() as session, session.ws_connect(socket_of(served)) as page:
        await drawn(page, "finished in")
        idle = set(served.visitors())
        async with session.ws_connect(socket_of(served)) as other:
            await drawn(other, "finished in")
            (busy,) = set(served.visitors()) - idle
            busy.suspend()
            try:
                await other.close()
                await end_with_visitors(served, number)
            finally:
                with suppress(psutil.NoSuchProcess):
                    busy.kill()
    assert served.process.returncode == (0 if number == signal.SIGTERM else -number)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
async def test_a_browser_shows_it(served: Served, tmp_path: Path) -> None:
    async with browser(tmp_path / "browser") as page:
        await page.open(served.address)
        await page.until("document.body && document.body.classList.contains('-first-byte')")
        assert await page.value("document.title") == f"rankboard: {PLAN.run}"
        for _ in looks("more than a plain ground"):
            if len(await page.picture()) > 8_000:
                break
        assert not await page.value("document.body.classList.contains('-closed')")
        await page.press("q")
        await page.until("document.body.classList.contains('-closed')")
        assert page.errors == [], "nothing was missing, or not allowed"
    await gone(served)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
async def test_a_page_is_loaded_again_though_no_other_could_be_opened(
    served: Served, tmp_path: Path
) -> None:
    async with aiohttp.ClientSession() as session, browser(tmp_path / "browser") as page:
        others = [await session.ws_connect(socket_of(served)) for _ in range(MAX_PAGES - 1)]
        is_drawn = "document.body && document.body.classList.contains('-first-byte')"
        await page.open(served.address)
        await page.until(is_drawn)
        await page.value("window.before = true")
        await page.call("Page.reload")
        await page.until(f"window.before === undefined && {is_drawn}")
        assert not await page.value("document.body.classList.contains('-closed')")
        assert page.errors == []
        for one in others:
            await one.close()
    await gone(served)


def test_a_port_that_is_in_use_is_told(run: Run, tmp_path: Path) -> None:
    recorded(tmp_path / "runs", History(PLAN).training())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(command.serve, run="last", port=port)
    assert done.returncode == 2
    assert done.stderr == (
        f"rankboard: --port {port}: Address already in use; give another one, or none\n"
    )


def test_a_missing_package_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "runs", History(PLAN).training())
    monkeypatch.setitem(sys.modules, "textual_serve", None)
    for name in [name for name in sys.modules if name.startswith("tui.serve.")]:
        monkeypatch.delitem(sys.modules, name)
    done = run(command.serve, run="last")
    assert done.returncode == 2
    assert "-m pip install 'rankboard[serve]'" in done.stderr


# What a page of ours does -------------------------------------------------------------------------


async def drawn(page: aiohttp.ClientWebSocketResponse, words: str) -> bytes:
    """Wait until these words are drawn; they come in one piece. Returns all that was drawn."""
    seen = b""
    while words.encode() not in seen:
        said = await page.receive(timeout=60)
        assert said.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), said
        if said.type is aiohttp.WSMsgType.BINARY:
            seen += said.data
    return seen


async def answered(page: aiohttp.ClientWebSocketResponse) -> object:
    """The next message that draws nothing."""
    while (said := await page.receive(timeout=60)).type is not aiohttp.WSMsgType.TEXT:
        assert said.type is aiohttp.WSMsgType.BINARY
    return json.loads(said.data)


async def closed(page: aiohttp.ClientWebSocketResponse) -> aiohttp.WSMessage:
    """The end of a page."""
    while (said := await page.receive(timeout=60)).type is aiohttp.WSMsgType.BINARY:
        pass
    return said


async def gone(served: Served) -> None:
    """Wait until no process draws any more."""
    for _ in looks("an end of the visitors"):
        if not served.visitors():
            return
        await asyncio.sleep(0.05)


async def end_with_visitors(served: Served, number: signal.Signals) -> None:
    """End the server by a signal, and wait until no process of it is left."""
    visitors = served.visitors()
    assert visitors
    os.kill(served.process.pid, number)
    served.process.wait(60)
    for _ in looks("an end of the visitors"):
        if not any(one.is_running() and one.status() != "zombie" for one in visitors):
            return
        await asyncio.sleep(0.05)
