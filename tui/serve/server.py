"""Answers the requests of browsers on this machine."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import textual_serve
from aiohttp import web

from tui.serve.guard import Guard
from tui.serve.page import FILES, FOCUS, HEADERS, POLICY, make_page
from tui.serve.visit import PATIENCE, Visit

ADDRESS = "127.0.0.1"
MAX_PAGES = 4
"""Visitors at a time: each has a process of its own, of some 80 MiB."""
LEAVING = PATIENCE + 1.0
"""Seconds that a page waits for a place: that of the same page before a reload may still end."""
FULL = f"{MAX_PAGES} pages are open already: close one of them, then load this page again.\n"
REFUSED = "Refused: open the whole address that rankboard serve has printed.\n"
LONGEST = 1 << 16
"""Bytes of a message of a page."""
SILENCE = 15.0
"""Seconds after which a browser that does not answer is given up."""
FAREWELL = 1.0
"""Seconds that a browser has to agree that its page is closed."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STATIC = Path(textual_serve.__file__).parent / "static"


class Server:
    """Serves the run that is recorded in a folder, on this machine only, to those who know the
    token."""

    def __init__(self, folder: Path, guard: Guard) -> None:
        self._folder = folder
        self._guard = guard
        self._pages: set[web.WebSocketResponse] = set()
        self._places = asyncio.Semaphore(MAX_PAGES)
        self._over = asyncio.Event()

    async def serve(self, listening: socket.socket, ready: Callable[[], object]) -> None:
        """Answer until SIGINT, SIGTERM or SIGHUP, then end all visits. `ready` is called once
        requests are answered."""
        for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(signal_number, self._over.set)
        app = web.Application(middlewares=[self._admit])
        app.on_response_prepare.append(_add_headers)
        app.on_shutdown.append(self._close_pages)
        for path, handler in (
            ("", self._send_page),
            ("ws", self._attend_page),
            ("static/{name}", _send_file),
        ):
            app.router.add_get(f"/{{token}}/{path}", handler, allow_head=False)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=LEAVING)
        await runner.setup()
        try:
            await web.SockSite(runner, listening).start()
            ready()
            await self._over.wait()
        finally:
            await runner.cleanup()

    async def _close_pages(self, _: web.Application) -> None:
        """Close all pages, whose visits end then."""
        await asyncio.gather(*(page.close() for page in self._pages))

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse a request without the token before anything else is looked at."""
        token = request.path.removeprefix("/").partition("/")[0]
        if not self._guard.admits(token, request.host, request.headers.get("Origin")):
            raise web.HTTPForbidden(text=REFUSED)
        return await handler(request)

    async def _send_page(self, request: web.Request) -> web.Response:
        """Send the page."""
        socket = f"ws://{request.host}/{self._guard.token}/ws"
        page_text = make_page(f"rankboard: {self._folder.name}", socket, MAX_PAGES)
        # Not every browser takes "self" for a websocket, so its address is named.
        headers = {"Content-Security-Policy": POLICY.format(host=request.host)}
        return web.Response(text=page_text, content_type="text/html", headers=headers)

    async def _attend_page(self, request: web.Request) -> web.StreamResponse:
        """Let a page watch once there is a place."""
        try:
            await asyncio.wait_for(self._places.acquire(), LEAVING)
        except TimeoutError:
            raise web.HTTPServiceUnavailable(text=FULL) from None
        websocket = web.WebSocketResponse(timeout=FAREWELL, heartbeat=SILENCE, max_msg_size=LONGEST)
        try:
            # The server may have been ended while this page waited for a place.
            if self._over.is_set():
                raise web.HTTPServiceUnavailable
            await websocket.prepare(request)
            self._pages.add(websocket)
            size = (_read_number(request, "width", 80), _read_number(request, "height", 24))
            await Visit(self._folder, websocket).attend(*size)
        finally:
            self._pages.discard(websocket)
            self._places.release()
        return websocket


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


async def _send_file(request: web.Request) -> web.StreamResponse:
    """Send a file that the page uses."""
    name = request.match_info["name"]
    if name == "focus.js":
        return web.Response(text=FOCUS, content_type="text/javascript")
    if name not in FILES:
        raise web.HTTPNotFound
    return web.FileResponse(STATIC / FILES[name])


def _read_number(request: web.Request, name: str, default: int) -> int:
    """Return a number of the address of a websocket, such as its width in columns."""
    value_text = request.query.get(name, "")
    # Without `isascii`, "²" would pass as a digit and fail in `int`.
    return (
        int(value_text)
        if value_text.isascii() and value_text.isdigit() and len(value_text) < 6
        else default
    )
