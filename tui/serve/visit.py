"""One visitor: a page in a browser, and the process that draws for it."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from remote.own_python import module_command

PATIENCE = 3.0
"""Seconds that a process has to end by itself."""
LARGEST = 500
"""Columns and rows of a page at most."""


class Visit(AppService):
    """A process that draws the run that is recorded in a folder, for a websocket."""

    def __init__(self, folder: Path, websocket: web.WebSocketResponse) -> None:
        super().__init__(
            "",
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=self._close,
            download_manager=DownloadManager(),
        )
        self._folder = folder
        self._websocket = websocket

    async def _close(self) -> None:
        await self._websocket.close()

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the process: with no shell, and in a session of its own, as ctrl+c is for the
        server."""
        environment = self._build_environment(_clamp_size(width), _clamp_size(height))
        # It is for the server's terminal, and would take the colours from the page.
        environment.pop("NO_COLOR", None)
        environment |= {"TEXTUAL_DRIVER": "tui.serve.visitor:Driver", "LC_ALL": "C.UTF-8"}
        command = module_command("tui.serve.visitor", os.fspath(self._folder))
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            start_new_session=True,
        )
        # AppService, whose method this replaces, writes to it.
        self._stdin = self._process.stdin
        return self._process

    async def attend(self, width: int, height: int) -> None:
        """Draw for the page until it is closed, or the process has ended."""
        try:
            await self.start(width, height)
            assert self._task
            # An app that ends by itself closes its page: else the browser would wait for it.
            self._task.add_done_callback(lambda _: asyncio.ensure_future(self._close()))
            async for message in self._websocket:
                if message.type is web.WSMsgType.TEXT:
                    await self._handle_message(message.json())
        except (ValueError, RecursionError):  # no JSON, or too deep: the page is not ours
            await self._close()
        finally:
            await self.end()

    async def _handle_message(self, message: Any) -> None:
        """Handle a message of the page; what no page of ours sends is ignored."""
        match message:
            case ["stdin", str(keys)]:
                await self.send_bytes(keys.encode(errors="replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                await self.set_terminal_size(_clamp_size(width), _clamp_size(height))
            case ["ping", str(mark) | int(mark) | float(mark)]:
                await self._websocket.send_json(["pong", mark])
            case ["focus", *_]:
                await self.focus()
            case ["blur", *_]:
                await self.blur()

    async def end(self) -> None:
        """End the process, at first by asking it."""
        process = self._process
        if process is None:
            return
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self.stop()
                    await process.wait()
        finally:  # also where the server ends meanwhile, and cancels this
            if process.returncode is None:
                process.kill()
        await process.wait()


def _clamp_size(cells: int) -> int:
    return max(1, min(cells, LARGEST))
