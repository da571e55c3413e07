"""What the model of a run that trains has learned so far, where that is a reason to stop it."""

from __future__ import annotations

import math

from remote.run.findings.find_resume_point import find_resume_point
from remote.run.findings.flaws import find_flaws
from remote.run.run_state import RunState
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.phases import RunPhase
from tui.kit.widgets.verdict_strip import NextKey, Severity
from tui.run.run_verdict import RunVerdict, VerdictKeys, make_hide_key

MIN_TESTS = 8
"""Tests from which on it is told that they are hardly better since long ago."""
HARDLY = 1.02
"""A test loss that is so many times the lowest is hardly worse."""
LOSES_MODEL = "stop (the model is lost)"
FLAW_WORDS = {
    FlawKind.DIVERGED: "diverged",
    FlawKind.LEARNED_NOTHING: "nothing learned so far",
    FlawKind.OVERFITTED: "overfitting",
}
"""What is said of a run that trains on, by what spoils its result."""


def judge_learning(run: RunState, keys: VerdictKeys) -> RunVerdict:
    """Return what speaks against more training, and the key that stops the run; without a title if
    nothing does."""
    if run.phase is not RunPhase.TRAINING or run.stall:
        return RunVerdict()
    flaw = next((flaw for flaw in find_flaws(run) if flaw.kind in FLAW_WORDS), None)
    severity = Severity.WARN if flaw else Severity.NEUTRAL
    plateau_text = describe_plateau(run)
    if flaw:
        title = _describe_flaw(flaw)
    elif plateau_text:
        title = f"{plateau_text}: more epochs may not help"
    else:
        return RunVerdict()
    stop_key = make_stop_key(run, keys)
    # To lose a sound model is no remedy; one that is ruined is no loss.
    stop_key = stop_key._replace(is_remedy=bool(flaw) or stop_key.text != LOSES_MODEL)
    next_keys = [] if run.is_held else [stop_key]
    next_keys.append(make_hide_key(keys))
    return RunVerdict(severity, title, next_keys=tuple(next_keys))


def make_stop_key(run: RunState, keys: VerdictKeys) -> NextKey:
    """Return the key that stops the run, and what is left of it; of a script, nobody knows."""
    if run.plan.job is None:
        return NextKey(keys.stop, "stop the run")
    resume_point = find_resume_point(run)
    text = f"stop (checkpoint {resume_point.checkpoint})" if resume_point else LOSES_MODEL
    return NextKey(keys.stop, text, "stop")


def _describe_flaw(flaw: Flaw) -> str:
    place = f"epoch {flaw.epoch}" if flaw.epoch else f"step {flaw.step}"
    since_text = f" since {place}" if flaw.epoch or flaw.step else ""
    return f"{FLAW_WORDS[flaw.kind]}{since_text}: {flaw.change}"


def describe_plateau(run: RunState) -> str:
    """Return since when the test loss is hardly better, "test loss hardly better since epoch 8"; ""
    if it is since the second half of all tests, or not known."""
    tests = [test for test in run.progress.evaluations if math.isfinite(test.loss)]
    if len(tests) < MIN_TESTS:
        return ""
    lowest_loss = min(test.loss for test in tests)
    places = range(len(tests))
    first_place = next(place for place in places if tests[place].loss <= HARDLY * lowest_loss)
    if first_place >= len(tests) // 2:
        return ""
    return f"test loss hardly better since epoch {tests[first_place].epoch}"
