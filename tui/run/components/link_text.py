"""What limits the steps of a run, and how much of the network it uses. Imports no Textual."""

from __future__ import annotations

from remote.format import percent, short_size
from remote.run.findings.advise_success import MUCH_SYNC, advise_success
from remote.run.findings.link_use import LinkUse, find_link_use
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict

PHASES = ("data", "compute", "sync")
"""The parts of a step."""


def describe_link_use(link_use: LinkUse) -> str:
    """Return "8.6M of 119M/s, 7%": the bytes per second of those that the link carries."""
    used = short_size(link_use.used) if link_use.used else "0B"
    return f"{used} of {short_size(link_use.rate)}/s, {percent(link_use.share)}"


def describe_bound(run: RunState, *, is_brief: bool = False) -> list[str]:
    """Return a line with the phase that takes most of a step, of a run whose phases are known, and
    what helps if that is sync; with the use of the network then.

    If it `is_brief`, return "63% sync: a larger batch waits less", to stand beside the training.
    """
    means = run.means
    shares = {phase: means.share(getattr(means, phase)) for phase in PHASES}
    longest = max(PHASES, key=lambda phase: shares[phase] if shares[phase] > 0 else 0.0)
    # A script may tell `data` alone, which splits nothing.
    if not (shares["compute"] > 0 or shares["sync"] > 0):
        return []
    line = f"{percent(shares[longest])} {'' if is_brief else 'of each step is '}{longest}"
    # Of a run that has failed, something else is to be changed first.
    if shares["sync"] >= MUCH_SYNC and run.verdict not in (Verdict.FAILED, Verdict.LOST):
        line += f": {_advise_fewer_syncs(run)}"
    link_use = find_link_use(run)
    if longest == "sync" and link_use and not is_brief:
        host_name = run.host_name(link_use.host)
        line += f"; network of {host_name}: {describe_link_use(link_use)}"
    return [line]


def _advise_fewer_syncs(run: RunState) -> str:
    # How much larger they should be is said by the advice.
    if advise_success(run):
        return "a larger batch waits less"
    job = run.plan.job
    is_unused = job is not None and job.accumulate == 1
    return f"a larger batch{' or --accumulate' if is_unused else ''} syncs less often"
