"""Answers the requests of browsers on this machine."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import textual_serve
from aiohttp import web

from tui.serve.guard import Guard
from tui.serve.page import FILES, FOCUS, HEADERS, POLICY, page
from tui.serve.visit import PATIENCE, Visit

ADDRESS = "127.0.0.1"
MOST = 4
"""Visitors at a time: each has a process of its own, of some 80 MiB."""
LEAVING = PATIENCE + 1.0
"""Seconds that a page waits for a place: that of the same page before a reload may still end."""
FULL = f"{MOST} pages are open already: close one of them, then load this page again.\n"
REFUSED = "Refused: open the whole address that rankboard serve has printed.\n"
LONGEST = 1 << 16
"""Bytes of a message of a page."""
SILENCE = 15.0
"""Seconds after which a browser that does not answer is given up."""
FAREWELL = 1.0
"""Seconds that a browser has to agree that its page is closed."""
STATIC = Path(textual_serve.__file__).parent / "static"


class Server:
    """Serves the run that is recorded in a folder, on this machine only, to those who know the
    token."""

    def __init__(self, folder: Path, guard: Guard) -> None:
        self._folder = folder
        self._guard = guard
        self._visits: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MOST)
        self._is_over = False

    async def serve(self, listening: socket.socket, ready: Callable[[], object]) -> None:
        """Answer until SIGINT, SIGTERM or SIGHUP, then end all visits. `ready` is called once
        requests are answered."""
        over = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, over.set)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.SockSite(runner, listening)
            await site.start()
            ready()
            await over.wait()
            await site.stop()
        finally:
            await self._end_visits()
            await runner.cleanup()

    async def _end_visits(self) -> None:
        self._is_over = True
        visits = list(self._visits)
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, or refuse it before anything else is looked at."""
        token, _, wanted = request.path.removeprefix("/").partition("/")
        if not self._guard.admits(token, request.host, request.headers.get("Origin")):
            return web.Response(status=403, text=REFUSED, headers=HEADERS)
        if request.method != "GET":
            return web.Response(status=405, headers={**HEADERS, "Allow": "GET"})
        if wanted == "ws":
            return await self._attend(request)
        if not wanted and request.path.endswith("/"):
            return self._page(request)
        if wanted == "static/focus.js":
            return web.Response(text=FOCUS, content_type="text/javascript", headers=HEADERS)
        name = FILES.get(wanted.removeprefix("static/"))
        if name:
            return web.FileResponse(STATIC / name, headers=HEADERS)
        return web.Response(status=404, text="Not found.\n", headers=HEADERS)

    def _page(self, request: web.Request) -> web.Response:
        socket = f"ws://{request.host}/{self._guard.token}/ws"
        text = page(f"rankboard: {self._folder.name}", socket, MOST)
        headers = {**HEADERS, "Content-Security-Policy": POLICY.format(host=request.host)}
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _attend(self, request: web.Request) -> web.StreamResponse:
        """Let a page watch once there is a place, in a task that can be ended."""
        try:
            await asyncio.wait_for(self._places.acquire(), LEAVING)
        except TimeoutError:
            return web.Response(status=503, text=FULL, headers=HEADERS)
        if self._is_over:
            return web.Response(status=503, headers=HEADERS)
        return await self._begin(request)

    async def _begin(self, request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(timeout=FAREWELL, heartbeat=SILENCE, max_msg_size=LONGEST)
        size = (_number(request, "width", 80), _number(request, "height", 24))
        task = asyncio.create_task(self._visit(request, websocket, *size))
        self._visits.add(task)
        task.add_done_callback(self._leave)
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
        return websocket

    def _leave(self, visit: asyncio.Task[None]) -> None:
        self._visits.discard(visit)
        self._places.release()

    async def _visit(
        self, request: web.Request, websocket: web.WebSocketResponse, width: int, height: int
    ) -> None:
        await websocket.prepare(request)
        await Visit(self._folder, websocket).attend(width, height)


def _number(request: web.Request, name: str, default: int) -> int:
    """A number of the address of a websocket, such as its width in columns."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else default
