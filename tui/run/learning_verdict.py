"""What the model of a run that trains has learned so far, where that is a reason to stop it."""

from __future__ import annotations

import math

from remote.run.findings.find_advice import advise_flaw
from remote.run.findings.find_resume_point import find_resume_point
from remote.run.findings.flaws import find_flaws
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.phases import RunPhase
from tui.kit.widgets.verdict_strip import NextKey, Severity
from tui.run.run_verdict import RunVerdict, VerdictKeys, find_advised_key, make_hide_key

MIN_TESTS = 8
"""Tests from which on it is told that they are hardly better since long ago."""
HARDLY = 1.02
"""A test loss is hardly worse than the lowest if it is at most so many times that."""
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
    plateau_epoch = find_plateau(run)
    next_keys = [] if run.is_held else [make_stop_key(run, keys)]
    if flaw:
        severity, title = Severity.WARN, _describe_flaw(flaw)
        advice = advise_flaw(run, flaw)
    elif plateau_epoch:
        severity = Severity.NEUTRAL
        title = f"{describe_plateau(plateau_epoch)}: more epochs may not help"
        advice = Advice(Remedy.FEWER_EPOCHS, best_epoch=plateau_epoch)
    else:
        return RunVerdict()
    if run.plan.job and advice and advice.setting[1] is not None:
        advised_key = find_advised_key(run, advice, keys)
        # A model that is ruined is no loss; one that is sound is.
        place = len(next_keys) if flaw else 0
        next_keys.insert(place, advised_key)
    return RunVerdict(severity, title, (), (*next_keys, make_hide_key(keys)), advice)


def make_stop_key(run: RunState, keys: VerdictKeys) -> NextKey:
    """Return the key that stops the run, and what is left of it; of a script, nobody knows."""
    if run.plan.job is None:
        return NextKey(keys.stop, "stop the run")
    resume_point = find_resume_point(run)
    if resume_point:
        return NextKey(keys.stop, f"stop (checkpoint {resume_point.checkpoint})", "stop")
    return NextKey(keys.stop, "stop (the model is lost)", "stop (model lost)")


def _describe_flaw(flaw: Flaw) -> str:
    place = f"epoch {flaw.epoch}" if flaw.epoch else f"step {flaw.step}"
    since_text = f" since {place}" if flaw.epoch or flaw.step else ""
    return f"{FLAW_WORDS[flaw.kind]}{since_text}: {flaw.change}"


def find_plateau(run: RunState) -> int:
    """Return the epoch that came so near the lowest test loss that later ones are hardly better; 0
    if that is in the second half of all tests, or not known."""
    tests = [test for test in run.progress.evaluations if math.isfinite(test.loss)]
    if len(tests) < MIN_TESTS:
        return 0
    lowest_loss = min(test.loss for test in tests)
    places = range(len(tests))
    first_place = next(place for place in places if tests[place].loss <= HARDLY * lowest_loss)
    if first_place >= len(tests) // 2:
        return 0
    return tests[first_place].epoch


def describe_plateau(epoch: int) -> str:
    """Say how near the lowest test loss an epoch came, see `find_plateau`."""
    return f"epoch {epoch} came within {HARDLY - 1:.0%} of the lowest test loss"
