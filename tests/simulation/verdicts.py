"""What may be concluded from what was injected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from remote.plan.plan import OnNan, OnStall
from remote.run.state.phases import Verdict
from tests.simulation.loop import START

if TYPE_CHECKING:
    from tests.simulation.launcher import Launcher
    from tests.simulation.world import Blame, World

FINISHED, FAILED, REFUSED = Verdict.FINISHED, Verdict.FAILED, Verdict.REFUSED
LOST, STOPPED = Verdict.LOST, Verdict.STOPPED

MAY: dict[str, set[Verdict]] = {
    "link": {LOST, FINISHED, STOPPED},
    "reset": {LOST, FINISHED},
    "slow": {LOST, FINISHED, STOPPED},
    "host": {LOST, FAILED, FINISHED},
    "agent": {LOST, FINISHED},
    "guard": {LOST, FINISHED},
    "both": {LOST, FINISHED},
    "disk": {LOST, FINISHED},
    "journal": {LOST, FINISHED},
    "silent": {LOST, FINISHED},
    "killed": {FAILED},
    "raised": {FAILED, FINISHED},
    "usage": {FAILED, REFUSED, FINISHED},
    "early": {FAILED, FINISHED},
    "hang": {FAILED, FINISHED, STOPPED},
    "nan": {FAILED, FINISHED},
    "launcher": {STOPPED, FINISHED, LOST},
    "suspended": {STOPPED, LOST, FINISHED},
    "detached": {FINISHED, STOPPED},
    "stop": {STOPPED, FINISHED},
}
"""How a run may end in which this was injected, whatever else was."""
OF_HOSTS = ("link", "reset", "slow", "host", "agent", "guard", "both", "disk", "silent", "journal")
OF_RANKS = ("killed", "raised", "usage", "early", "hang", "nan")
OF_LAUNCHERS = ("launcher", "suspended", "detached")
ENDS_ALONE = ("host", "agent", "guard", "both", "disk", "killed", "raised", "usage", "early", "nan")
"""What ends a run, or is outlived: nobody needs to stop it."""
SHORT = 2.0
"""Seconds without a link that no agent notices."""
REACHED = 6.0
"""Seconds after which all ranks have made a step, unless something keeps them."""


def check_verdict(world: World, launcher: Launcher, fail: Callable[[str], None]) -> None:
    """The verdict, and who is named, follow from what was injected."""
    state = launcher.session.state
    verdict, cause = state.verdict, state.cause
    if verdict is None or not launcher.is_last_there:
        return
    blames = world.blames
    allowed = set().union(*(MAY[blame.kind] for blame in blames)) if blames else set()
    if not blames or world.plan.policy.max_restarts:
        allowed.add(FINISHED)
    if world.was_stopped_at_last:
        allowed.add(STOPPED)
    if world.plan.policy.start_timeout or not all(host.starts for host in world.hosts):
        allowed.add(FAILED)  # it was left, or stopped elsewhere, before its ranks began
    if launcher.returning and any(host.lost for host in state.hosts):
        allowed |= {FAILED, LOST}  # some ranks have ended well, and nobody knows of the others
    if {"guard", "silent"} <= {blame.kind for blame in blames}:
        allowed.add(FAILED)  # an agent that has stopped its ranks does not come to say why
    named = f"{verdict.name}, {cause.text() if cause else 'no cause'}"
    if verdict not in allowed:
        fail(f"{launcher.name}: {named} does not follow from {_list(blames)}")
    if verdict in (FAILED, LOST, REFUSED) and not cause:
        fail(f"{launcher.name}: {verdict.name} without a cause")
    if verdict in (FINISHED, STOPPED) and cause:
        fail(f"{launcher.name}: {named}")
    if cause and not _may_name(world, cause.host, cause.rank):
        fail(f"{launcher.name}: {named} names nobody of {_list(blames)}")
    if len(blames) == 1 and launcher.is_first:
        wrong = _judge_alone(world, blames[0], verdict, cause.host if cause else "", cause)
        if wrong:
            fail(f"{launcher.name}: {named}, but {wrong} after {_list(blames)}")


def _list(blames: list[Blame]) -> str:
    words = (f"{one.kind} on host {one.host} rank {one.rank}" for one in blames)
    return "; ".join(words) or "nothing"


def _may_name(world: World, host: str, rank: int) -> bool:
    """Whether somebody to whom nothing was done may be the cause."""
    if any(blame.kind in (*OF_HOSTS, *OF_LAUNCHERS) for blame in world.blames):
        return True  # ranks may then die of communication, and nothing else be known
    if rank < 0 and not host and world.plan.policy.start_timeout:
        return True
    if rank < 0:  # of a run that was left, or stopped elsewhere, before its ranks began
        return not all(one.starts for one in world.hosts)
    ranks = {blame.rank for blame in world.blames if blame.kind in OF_RANKS}
    quiet = not world.plan.job and any(b.kind == "early" for b in world.blames)
    return rank in ranks or quiet


def _judge_alone(world: World, blame: Blame, verdict: Verdict, host: str, cause: object) -> str:
    """What is wrong with a verdict where this was all that happened; "" where nothing is."""
    policy = world.plan.policy
    rank = getattr(cause, "rank", -1)
    if blame.kind in ENDS_ALONE and world.was_stopped_at_last:
        return "it did not end by itself"
    if blame.kind in ("silent", "link") and _is_outlived(world, blame) and verdict is not FINISHED:
        return "that is outlived"
    if policy.max_restarts:
        return ""
    match blame.kind:
        case "killed" if verdict is not FAILED or rank != blame.rank:
            return f"rank {blame.rank} was killed"
        case "raised" if verdict is FAILED and rank != blame.rank:
            return f"rank {blame.rank} raised"
        case "agent" | "guard" | "disk" | "both" | "host" if verdict is LOST:
            return "" if host == world.hosts[blame.host].name else "another host was hit"
        case "nan" if policy.on_nan is OnNan.WARN and verdict is not FINISHED:
            return "losses are only watched"
        case "hang" if policy.on_stall is OnStall.STOP and verdict is FAILED:
            is_late = rank < 0 and policy.start_timeout > 0
            return "" if is_late or rank == blame.rank else "another rank hangs"
        case "stop" if verdict not in (STOPPED, FINISHED):
            return "a person stopped it"
    return ""


def _is_outlived(world: World, blame: Blame) -> bool:
    """Whether an outage is short enough for a run whose hosts have all been reached."""
    last = max(host.found_at for host in world.hosts)
    is_starting = world.plan.policy.start_timeout and blame.when < START + REACHED
    if blame.when < last + 1.0 or is_starting:
        return False
    if blame.kind == "silent":
        return blame.lasts < world.times.lost - world.agent_times.tick - 1.0
    return blame.lasts < (world.times.silent if world.plan.policy.keep else SHORT)
