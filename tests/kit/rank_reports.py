"""What a rank, or the watch in its program, has written for its agent."""

from __future__ import annotations

import json
from typing import Any

from training.wire.events import PREFIX, WORKER, parse_report, to_object


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
