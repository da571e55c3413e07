"""Finds what is wrong with a run, or was: what its user has to know while it trains. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from remote.format import duration, size
from remote.run.diagnosis.straggler import (
    describe_stragglers,
    explain_slowness,
    name_stragglers,
)
from remote.run.findings.find_advice import advise_stall, advise_straggler
from remote.run.findings.isolation import describe_isolation, isolated_ranks
from remote.run.findings.training_loss import find_loss_rise
from remote.run.run_state import RunState
from remote.run.state.advice import Advice
from remote.run.state.phases import FATES, RankPhase
from remote.run.state.types import Evidence


class Alarm(StrEnum):
    """The kind of an `Alert`, the most important first."""

    STALL = "stall"
    DIVERGED = "diverged"
    CHECKPOINT = "checkpoint"
    ALONE = "alone"
    SILENCE = "silence"
    DISK = "disk"
    DRIFT = "drift"
    STRAGGLER = "straggler"
    RESTART = "restart"


LEAST_SLOW_SHARE = 0.1
"""The share of the training for which a rank has to be slow to be named at the end of the run."""
WEIGHTS = {alarm: weight for weight, alarm in enumerate(Alarm)}


Key = tuple[Alarm, int, float]


@dataclass(frozen=True)
class Alert:
    """Something is wrong with a run, or was. Its fields are keys of the summary."""

    alarm: Alarm
    since: float
    """When it began, or where that is not known, when it was found; by the session's clock."""
    text: str
    over: float = 0.0
    """When it no longer was; 0 before."""
    subject: int = -1
    """The host or rank that it is about, -1 for the run."""
    title: str = ""
    """The beginning of the text, which says what is wrong; "" for all of it."""
    reasons: tuple[str, ...] = ()
    """What the text says besides."""
    advice: Advice | None = None
    """What helps; None if nothing is known, or it is over."""

    @property
    def key(self) -> Key:
        """What identifies it; its text may change."""
        return self.alarm, self.subject, self.since


def find_alerts(run: RunState) -> list[Alert]:
    """Return all alerts of a run, the oldest first."""
    sources = (
        _restart_alerts,
        _divergence_and_drift_alerts,
        _checkpoint_alerts,
        _stall_alerts,
        _straggler_alerts,
        _isolation_alerts,
        _host_alerts,
    )
    alerts = [alert for source in sources for alert in source(run)]
    return sorted(alerts, key=lambda alert: alert.since)


def sort_by_urgency(alerts: Iterable[Alert]) -> list[Alert]:
    """Return those that are not over first, the most important first, then the newest."""
    return sorted(alerts, key=lambda alert: (alert.over > 0, WEIGHTS[alert.alarm], -alert.since))


def describe_slow_spells(run: RunState, named_ranks: Collection[int] = ()) -> list[str]:
    """Return which ranks held the others up for a good part of the training, and why; without the
    ranks that are named elsewhere.

    The longest time comes first; of each rank, only its longest is named.
    """
    spells: dict[int, tuple[float, str]] = {}
    for alert in _straggler_alerts(run):
        if alert.subject in named_ranks:
            continue
        slow_seconds = (alert.over or end_of_rank(run, alert.subject)) - alert.since
        if slow_seconds >= LEAST_SLOW_SHARE * run.training_seconds:
            longest_spell = (slow_seconds, f"slow for {duration(slow_seconds)}: {alert.text}")
            spells[alert.subject] = max(spells.get(alert.subject, (0.0, "")), longest_spell)
    return [text for _, text in sorted(spells.values(), reverse=True)]


def end_of_rank(run: RunState, number: int) -> float:
    """Return when a rank ended; now, if it has not."""
    rank = run.rank(number)
    return rank.since if rank and rank.phase in FATES else run.now


def _restart_alerts(run: RunState) -> Iterator[Alert]:
    restarts = run.progress.restarts
    max_restarts = run.launcher.attempts_allowed - 1
    for number, restart in enumerate(restarts, 1):
        text = f"restart {number} of {max_restarts}" if max_restarts > 0 else "restart"
        # Without a checkpoint the ranks begin at step 0 again.
        if restart.step:
            text += f" from step {restart.step}"
        if restart.reason:
            text += f": {restart.reason}"
        is_newest = number == len(restarts)
        # A restart is an alert until its ranks train; all before the newest one are over.
        has_trained = not is_newest or any(rank.pace or rank.begun for rank in run.ranks)
        restarted_at = run.started + restart.seconds
        yield Alert(Alarm.RESTART, restarted_at, text, restarted_at if has_trained else 0.0)


def _divergence_and_drift_alerts(run: RunState) -> Iterator[Alert]:
    progress = run.progress
    if progress.diverged:
        yield Alert(Alarm.DIVERGED, progress.diverged.when, progress.diverged.text)
    rise = find_loss_rise(run)
    if rise and not progress.diverged:
        yield Alert(Alarm.DIVERGED, rise.since, rise.text, rise.over)
    if progress.drift:
        drift_extent = (progress.largest_drift or progress.drift).extent
        text = f"the ranks' models differ {drift_extent}, since step {progress.drift.step}"
        yield Alert(Alarm.DRIFT, progress.drifted, text)


def _checkpoint_alerts(run: RunState) -> Iterator[Alert]:
    """Yield the ranks that died by themselves while they saved a checkpoint."""
    for rank in run.ranks:
        death = rank.death
        was_saving = rank.exited_from is RankPhase.SAVING
        # A rank that was stopped or lost meanwhile did not fail because of the checkpoint.
        if death and was_saving and death.evidence is Evidence.OWN:
            text = f"checkpoint failed: rank {rank.rank} on {death.host}: {death.problem}"
            yield Alert(Alarm.CHECKPOINT, rank.since, text, subject=rank.rank)


def _stall_alerts(run: RunState) -> Iterator[Alert]:
    for stall in run.stalls:
        first_fact, *other_facts = stall.facts or (stall.text,)
        yield Alert(
            Alarm.STALL,
            stall.since,
            f"stalled: {stall.text}",
            stall.over,
            title=first_fact,
            reasons=tuple(other_facts),
            advice=None if stall.over else advise_stall(run, stall),
        )


def _straggler_alerts(run: RunState) -> Iterator[Alert]:
    for episode in run.stragglers.episodes:
        straggler = episode.straggler
        if not episode.over:  # its times and its reason may have changed
            straggler = run.stragglers.current(straggler.rank) or straggler
        yield Alert(
            Alarm.STRAGGLER,
            episode.since,
            describe_stragglers([straggler], run.hosts),
            episode.over,
            straggler.rank,
            name_stragglers([straggler], run.hosts, is_past=run.is_held),
            (explain_slowness(straggler),),
            None if episode.over else advise_straggler(run, straggler),
        )


def _isolation_alerts(run: RunState) -> Iterator[Alert]:
    """Yield that the ranks do not communicate, once all have reported it."""
    ranks = isolated_ranks(run)
    if not ranks:
        return
    since = max(rank.isolated_at for rank in ranks)
    over = min((rank.connected_at for rank in ranks if rank.connected_at), default=0.0)
    # Ranks of which one has exchanged something before the last one came so far were not alone.
    if not over or over > since:
        yield Alert(Alarm.ALONE, since, describe_isolation(run), over)


def _host_alerts(run: RunState) -> Iterator[Alert]:
    for host in run.hosts:
        if host.missed:
            silent_since = host.heard
            text = f"{host.name} has been silent for {duration(run.now - silent_since)}"
            yield Alert(Alarm.SILENCE, silent_since, text, subject=host.index)
        elif host.back:
            silent_since = host.silent_from
            text = f"{host.name} was silent for {duration(host.away)}"
            yield Alert(Alarm.SILENCE, silent_since, text, host.back, host.index)
        if host.disk_low:
            text = (
                f"{host.name} has only {size(host.sample.disk_free)} left on the disk of its runs"
            )
            yield Alert(Alarm.DISK, host.disk_low, text, subject=host.index)
