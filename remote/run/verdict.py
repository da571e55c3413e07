"""What became of each rank, and so of the run, once it is known what it died of. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from remote.run.cause import Death, Evidence
from remote.run.ranks import HostState, RankPhase, RankState, Verdict


def fate(
    rank: RankState, host: HostState, cause: Death | None, over: bool, by_person: bool
) -> RankPhase | None:
    """What became of a rank; None while it lives, or where it never did. `over`: the run has ended;
    `by_person`: a person stopped it."""
    if rank.exited is None or rank.death is None:
        if rank.phase is RankPhase.WAITING:
            return None
        if host.gone:
            return RankPhase.LOST
        return RankPhase.STOPPED if over else None
    if cause is rank.death:
        return RankPhase.FAILED
    if rank.exited.code == 0 and rank.death.evidence is Evidence.NONE and not rank.exited.stopped:
        return RankPhase.FINISHED
    if rank.exited.stopped and host.gone:
        return RankPhase.LOST
    if rank.exited.stopped or by_person:
        return RankPhase.STOPPED
    return RankPhase.VICTIM if rank.death.evidence is Evidence.ORDER else RankPhase.FAILED


def verdict(ranks: Sequence[RankState], cause: Death | None, by_person: bool) -> Verdict:
    """How a run has ended whose ranks have met their fates."""
    diverged = cause is not None and cause.rank >= 0  # the only cause by which no rank dies
    if all(rank.phase is RankPhase.FINISHED for rank in ranks) and not diverged:
        return Verdict.FINISHED
    if cause is None:
        stopped = by_person or any(rank.phase is RankPhase.STOPPED for rank in ranks)
        return Verdict.STOPPED if stopped else Verdict.FAILED
    if cause.refused:
        return Verdict.REFUSED
    return Verdict.LOST if cause.rank < 0 and cause.host else Verdict.FAILED
