"""What is wrong with a run, or was: what its user has to know while it trains. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from remote.format import duration, size
from remote.run.diagnosis.straggler import sentence
from remote.run.run_state import RunState
from remote.run.state.phases import FATES, RankPhase
from remote.run.state.types import Evidence


class Alarm(StrEnum):
    """What an alert is about, the most important first."""

    STALL = "stall"
    DIVERGED = "diverged"
    CHECKPOINT = "checkpoint"
    SILENCE = "silence"
    DISK = "disk"
    DRIFT = "drift"
    STRAGGLER = "straggler"
    RESTART = "restart"


SPELL = 0.1
"""The share of the training for which a rank has to be slow to be told of after its end."""
WEIGHTS = {alarm: weight for weight, alarm in enumerate(Alarm)}


Key = tuple[Alarm, int, float]


@dataclass(frozen=True)
class Alert:
    """Something is wrong `since` a time of the session's clock; `over` is when it no longer was, 0
    before. `subject` is the host or rank that it is about, -1 for the run."""

    alarm: Alarm
    since: float
    text: str
    over: float = 0.0
    subject: int = -1

    @property
    def key(self) -> Key:
        """What tells it from others; its text may change."""
        return self.alarm, self.subject, self.since


def alerts(run: RunState) -> list[Alert]:
    """All alerts of a run, the oldest first."""
    found = (
        *_restarts(run),
        *_training(run),
        *_checkpoints(run),
        *_stalls(run),
        *_stragglers(run),
        *_hosts(run),
    )
    return sorted(found, key=lambda alert: alert.since)


def urgent_first(found: Iterable[Alert]) -> list[Alert]:
    """Those that are not over first, the most important first, then the newest."""
    return sorted(found, key=lambda one: (one.over > 0, WEIGHTS[one.alarm], -one.since))


def slow_spells(run: RunState) -> list[str]:
    """Which ranks held the others up for a good part of the training of an ended run, and why, the
    longest first; of each rank its longest time."""
    spells: dict[int, tuple[float, str]] = {}
    for alert in _stragglers(run):
        lasted = (alert.over or _left_off(run, alert.subject)) - alert.since
        if lasted >= SPELL * run.training_seconds:
            told = f"slow for {duration(lasted)}: {alert.text}"
            spells[alert.subject] = max(spells.get(alert.subject, (0.0, "")), (lasted, told))
    return [told for _, told in sorted(spells.values(), reverse=True)]


def _left_off(run: RunState, number: int) -> float:
    """When a rank that was slow to the end ended; now, where it has not."""
    rank = run.rank(number)
    return rank.since if rank and rank.phase in FATES else run.now


def _restarts(run: RunState) -> Iterator[Alert]:
    restarts = run.progress.restarts
    most = run.course.attempts_allowed - 1
    for number, restart in enumerate(restarts, 1):
        of = f" {number} of {most}" if most > 0 else ""
        step = f" from step {restart.step}" if restart.step else ""
        trains = number < len(restarts) or any(rank.pace or rank.begun for rank in run.ranks)
        since = run.started + restart.seconds
        why = f": {restart.reason}" if restart.reason else ""
        text = f"restart{of}{step}{why}"
        yield Alert(Alarm.RESTART, since, text, since if trains else 0.0)


def _training(run: RunState) -> Iterator[Alert]:
    progress = run.progress
    if progress.diverged:
        yield Alert(Alarm.DIVERGED, progress.diverged.when, progress.diverged.text)
    if progress.drift:
        extent = (progress.largest_drift or progress.drift).extent
        text = f"the ranks' models differ {extent}, since step {progress.drift.step}"
        yield Alert(Alarm.DRIFT, progress.drifted, text)


def _checkpoints(run: RunState) -> Iterator[Alert]:
    """Ranks that died while they saved, by themselves."""
    for rank in run.ranks:
        death = rank.death
        was_saving = rank.exited_from is RankPhase.SAVING
        if death and was_saving and death.evidence is Evidence.OWN:
            text = f"checkpoint failed: rank {rank.rank} on {death.host}: {death.what}"
            yield Alert(Alarm.CHECKPOINT, rank.since, text, subject=rank.rank)


def _stalls(run: RunState) -> Iterator[Alert]:
    for stall in run.stalls:
        yield Alert(Alarm.STALL, stall.since, f"stalled: {stall.text}", stall.over)


def _stragglers(run: RunState) -> Iterator[Alert]:
    for episode in run.watch.episodes:
        slow = run.watch.found.get(episode.straggler.rank, episode.straggler)
        known = episode.straggler if episode.over else slow
        text = sentence([known], run.hosts)
        yield Alert(Alarm.STRAGGLER, episode.since, text, episode.over, known.rank)


def _hosts(run: RunState) -> Iterator[Alert]:
    for host in run.hosts:
        if host.missed:
            since = host.heard
            text = f"{host.name} has been silent for {duration(run.now - since)}"
            yield Alert(Alarm.SILENCE, since, text, subject=host.index)
        elif host.back:
            since = host.silent_from
            text = f"{host.name} was silent for {duration(host.away)}"
            yield Alert(Alarm.SILENCE, since, text, host.back, host.index)
        if host.disk_low:
            text = f"{host.name} has only {size(host.disk_free)} left on the disk of its runs"
            yield Alert(Alarm.DISK, host.disk_low, text, subject=host.index)
