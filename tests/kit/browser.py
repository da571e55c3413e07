"""A headless Chromium, driven by its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.kit.wait import looks

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--remote-debugging-port=0", "--window-size=1200,800", "about:blank"),
)


class Page:
    """One page of the browser."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket
        self._number = 0
        self.errors: list[str] = []
        """What the page could not load, or was not allowed to do."""

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer of the browser to a call."""
        self._number += 1
        await self._websocket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = await self._websocket.receive_json()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            if (
                message.get("method") == "Log.entryAdded"
                and message["params"]["entry"]["level"] == "error"
            ):
                self.errors.append(message["params"]["entry"]["text"])

    async def open(self, address: str) -> None:
        """Go to an address."""
        await self.call("Log.enable")
        await self.call("Page.navigate", url=address)

    async def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        for _ in looks(expression):
            if await self.value(expression):
                return
            await asyncio.sleep(0.05)

    async def press(self, text: str) -> None:
        """Type a character."""
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=text, text=text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=text)

    async def picture(self) -> bytes:
        """What the page shows, as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])


@contextlib.asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """A browser that keeps its files in a folder, with one page."""
    assert CHROMIUM
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        f"--user-data-dir={folder}",
        *FLAGS,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port_file = folder / "DevToolsActivePort"
        for _ in looks("a browser that listens"):
            if port_file.exists() and port_file.read_text().count("\n"):
                break
            await asyncio.sleep(0.05)
        port = port_file.read_text().split()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                (page,) = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        process.kill()
        await process.wait()
