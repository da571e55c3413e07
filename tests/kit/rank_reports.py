"""What a rank, or the watch in its program, has written for its agent, and this for launchers."""

from __future__ import annotations

import json
from typing import Any

from training.wire.events import (
    PREFIX,
    WORKER,
    Record,
    expand,
    parse_report,
    split_steps,
    to_object,
)


def read_report(line: str) -> dict[str, Any]:
    """Return the JSON object of a line of a rank or worker. A step is written as a row of numbers,
    and is the object of its event here."""
    assert line.startswith(PREFIX), line
    text = line.removeprefix(PREFIX).removeprefix(WORKER)
    report = parse_report(text)
    if report is None:  # a message to the agent alone
        message: dict[str, Any] = json.loads(text)
        return message
    event, time = report
    return {"time": time} | to_object(event)


def take_apart(record: Record) -> list[Record]:
    """Return all that a record stands for: the events and lines in a text, the steps of a block."""
    return [step for part in expand(record) for step in split_steps(part)]
