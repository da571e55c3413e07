"""What a run comes to so far, as its strip says it: what is wrong, or how it has ended, and which
keys help."""

from __future__ import annotations

from typing import NamedTuple

from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy
from remote.run.state.phases import RunPhase
from tui.kit.widgets.verdict_strip import NextKey, Reason, Severity
from tui.run.components.advice_text import describe_remedy, make_command

SHORT_COMMAND = 30
"""Characters of a command that is shown beside its key, at most."""


class RunVerdict(NamedTuple):
    """A verdict on a run. Without a title there is nothing to say."""

    severity: Severity = Severity.NEUTRAL
    title: str = ""
    reasons: tuple[Reason, ...] = ()
    next_keys: tuple[NextKey, ...] = ()
    advice: Advice | None = None
    """What helps most; None if nothing is known."""
    is_past: bool = False
    """It is over: a line that is told, and nothing to act on."""


class VerdictKeys(NamedTuple):
    """The keys that a verdict may name, as people write them; "" where they do nothing now."""

    resume: str = ""
    new_run: str = ""
    compare: str = ""
    first_error: str = ""
    copy: str = ""
    """Copies the command that helps, or that of the run."""
    stacks: str = ""
    hide: str = ""
    alerts: str = ""
    stop: str = ""


def make_hide_key(keys: VerdictKeys) -> NextKey:
    """Return the key that hides a verdict, which leaves the run as it is."""
    return NextKey(keys.hide, "hide", is_remedy=False)


def find_advised_key(run: RunState, advice: Advice, keys: VerdictKeys) -> NextKey:
    """Return the key that does what an advice says."""
    is_for_next = run.phase is not RunPhase.ENDED
    text = describe_remedy(advice, is_for_next=is_for_next)
    match advice.remedy:
        case Remedy.EXCLUDE_HOST:
            return NextKey(
                keys.copy, f"copy the command {text}", f"copy the command {describe_remedy(advice)}"
            )
        case Remedy.RUN_COMMAND | Remedy.END_PROGRAMS | Remedy.CONTINUE_RANK:
            command = make_command(run, advice)
            # What it gains has no room beside a command.
            if len(command) <= SHORT_COMMAND and not advice.step_seconds:
                return NextKey(keys.copy, f'copy "{command}"')
            return NextKey(keys.copy, f"copy the command to {text}")
        case Remedy.SHOW_STACKS:
            return NextKey(keys.stacks, text)
    if is_for_next:
        return NextKey(keys.copy, f"copy the command {text}")
    return NextKey(keys.new_run, f"new run {text}")
