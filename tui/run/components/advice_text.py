"""An advice in words: what to press or type, and what it gains."""

from __future__ import annotations

from remote.format import step_time
from remote.run.state.advice import Advice, Remedy
from tui.kit import palette


def describe_advice(advice: Advice, stacks_key: str) -> str:
    """Return an advice in a line: "▶ without node3: rankboard … --exclude node3, about 54 ms/step".
    `stacks_key` shows the stacks."""
    gain = f", about {step_time(advice.step_seconds)}/step" if advice.step_seconds else ""
    match advice.remedy:
        case Remedy.EXCLUDE_HOST:
            text = f"without {advice.host}: rankboard … --exclude {advice.host}{gain}"
        case Remedy.END_PROGRAMS:
            text = f"end other programs on {advice.host}: top lists them{gain}"
        case Remedy.SHOW_STACKS:
            text = f"{stacks_key} shows its stack"
    return f"{palette.sign('playing')} {text}"
