"""An advice in words: what to press or type, and what it gains."""

from __future__ import annotations

import shlex

from remote.format import count, step_time
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy
from remote.transport.registry import load_transport
from tui.kit import palette


def describe_advice(run: RunState, advice: Advice, stacks_key: str = "s") -> str:
    """Return an advice in a line: "▶ without node3 (about 54 ms/step): the same command with
    --exclude node3". `stacks_key` shows the stacks in the dashboard."""
    text = describe_remedy(advice)
    match advice.remedy:
        case Remedy.SHOW_STACKS:
            text = f"{stacks_key} {text}"
        case Remedy.LOWER_LR | Remedy.OTHER_LR | Remedy.FEWER_EPOCHS | Remedy.LARGER_BATCH:
            text = f"try a new run {text}"
        case Remedy.EXCLUDE_HOST:
            text = f"{text}: the same command with --exclude {advice.host}"
        case _:
            text = f"{text}: {make_command(run, advice)}"
    return f"{palette.sign('playing')} {text}"


def describe_remedy(advice: Advice, *, is_for_next: bool = False) -> str:
    """Return what helps, and what it gains; `is_for_next` if that is the next run, as this one
    trains on."""
    gain = f" (about {step_time(advice.step_seconds)}/step)" if advice.step_seconds else ""
    lr_now = f" (now {advice.lr:g})" if advice.lr else ""
    match advice.remedy:
        case Remedy.RUN_COMMAND:
            return "do what helps"
        case Remedy.EXCLUDE_HOST:
            next_text = " for the next run" if is_for_next else ""
            return f"without {advice.host}{next_text}{gain}"
        case Remedy.END_PROGRAMS:
            return f"list the programs on {advice.host}: end those that are not needed{gain}"
        case Remedy.CONTINUE_RANK:
            return f"let rank {advice.rank} go on"
        case Remedy.SHOW_STACKS:
            return "shows where each rank is"
        case Remedy.LOWER_LR if advice.is_usual_lr_lower:
            return f"with lr {advice.usual_lr:g}, the default{lr_now}"
        case Remedy.LOWER_LR:
            better_lr = advice.setting[1]
            return f"with a lower lr: {better_lr:g}{lr_now}" if better_lr else "with a lower lr"
        case Remedy.OTHER_LR:
            return f"with another lr{lr_now}: too high or too low, or its data says nothing"
        case Remedy.LARGER_BATCH:
            return f"with batch size {advice.setting[1]} (now {advice.batch_size}) for less sync"
        case Remedy.FEWER_EPOCHS:
            if advice.best_epoch and is_for_next:
                return f"with {count(advice.best_epoch, 'epoch')}"
            if advice.best_epoch:
                return f"with fewer epochs: best was epoch {advice.best_epoch}"
            best_text = f": best was step {advice.best_step}" if advice.best_step else ""
            return f"with fewer steps{best_text}"


def make_command(run: RunState, advice: Advice) -> str:
    """Return what does what an advice says if it is typed in a shell; "" where nothing
    does, and for the command of the run with another setting."""
    match advice.remedy:
        case Remedy.RUN_COMMAND:
            return advice.command
        case Remedy.END_PROGRAMS:
            # Over SSH there is no terminal for the screen of `top`.
            return _run_there(run, advice.host, ["top", "-b", "-n", "1"], here="top")
        case Remedy.CONTINUE_RANK:
            return _run_there(run, advice.host, ["kill", "-CONT", str(run.ranks[advice.rank].pid)])
    return ""


def _run_there(run: RunState, host_name: str, words: list[str], here: str = "") -> str:
    """Return the command line that runs these words on a host of the run; `here` instead, if it is
    another one, where the host is this machine."""
    host = next(host for host in run.plan.hosts if host.name == host_name)
    return load_transport(host.transport).by_hand(host, words) or here or shlex.join(words)
