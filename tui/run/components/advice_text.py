"""An advice in words: what to press or type, and what it gains."""

from __future__ import annotations

from remote.format import step_time
from remote.run.state.advice import Advice, Remedy
from tui.kit import palette


def describe_advice(advice: Advice, stacks_key: str = "", new_run_key: str = "") -> str:
    """Return an advice in a line: "▶ without node3: rankboard … --exclude node3, about 54 ms/step".

    `stacks_key` shows the stacks, `new_run_key` opens the form; "" where there are no keys.
    """
    gain = f", about {step_time(advice.step_seconds)}/step" if advice.step_seconds else ""
    new_run = f"{new_run_key} new run".lstrip()
    lr_now = f" (now {advice.lr:g})" if advice.lr else ""
    match advice.remedy:
        case Remedy.EXCLUDE_HOST:
            text = f"without {advice.host}: rankboard … --exclude {advice.host}{gain}"
        case Remedy.END_PROGRAMS:
            text = f"end other programs on {advice.host}: top lists them{gain}"
        case Remedy.SHOW_STACKS:
            text = f"{stacks_key} shows its stack"
        case Remedy.LOWER_LR:
            text = f"{new_run} with a lower lr{lr_now}"
        case Remedy.OTHER_LR:
            text = (
                f"{new_run} with another lr{lr_now}: too high or too low, or its data says nothing"
            )
        case Remedy.FEWER_EPOCHS:
            text = f"{new_run} with fewer epochs: best was epoch {advice.best_epoch}"
    return f"{palette.sign('playing')} {text}"
