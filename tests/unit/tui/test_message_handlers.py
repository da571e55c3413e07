"""Textual finds handlers by name, so a renamed message would silently lose its handler."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import textual.widgets
from textual.message import Message
from textual.message_pump import MessagePump

import tui


def subclasses(base: type) -> Iterator[type]:
    for child in base.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_handler_belongs_to_a_message() -> None:
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if "report" not in module.name and "png" not in module.name:  # they need an extra
            importlib.import_module(module.name)
    assert textual.widgets.Button.Pressed, "Textual loads its widgets once they are asked for"
    names = {message.handler_name for message in subclasses(Message)} | {"on_event"}
    unknown = []
    for widget in subclasses(MessagePump):
        if not widget.__module__.startswith("tui."):
            continue
        for name, member in vars(widget).items():
            if name.startswith("on_") and inspect.isfunction(member) and name not in names:
                unknown.append(f"{widget.__qualname__}.{name}")
    assert unknown == []
