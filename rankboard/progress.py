"""What is known of a run from its events: where it is, and where each rank is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
"""An event of a run, with the keys that docs/reference/events.md describes."""
KINDS = (
    "run",
    "alert",
    "spawned",
    "entered",
    "step",
    "exited",
    "restarted",
    "workerjoined",
    "summary",
)
"""The events that change what is known here."""
RECENT_STEPS = 20
RECENT_SECONDS = 10.0
"""Steps, and seconds of steps, over which the time of a step is averaged at the least, as in the
dashboard."""


@dataclass(frozen=True)
class RankProgress:
    """Where a rank is. What is not known is None."""

    rank: int
    host: str
    phase: str
    """What it is doing, such as `importing` or `training`, or how it has ended."""
    step: int
    loss: float | None
    """Of its last step."""
    step_seconds: float | None
    """Seconds per step: the mean of the last 10 s, of 20 steps at the least; after the end, of all
    steps but the first."""


@dataclass
class _RankState:
    """What the events of a rank have said so far."""

    host: str
    phase: str = "waiting"
    step: int = 0
    loss: float | None = None
    step_seconds: float | None = None
    """The mean after the end."""
    recent: deque[float] = field(default_factory=deque)
    """The seconds of the last steps."""
    recent_seconds: float = 0.0
    """Their sum."""

    def take_seconds(self, seconds: float) -> None:
        """Take in the seconds of the next step."""
        self.recent.append(seconds)
        self.recent_seconds += seconds
        while (
            len(self.recent) > RECENT_STEPS
            and self.recent_seconds - self.recent[0] >= RECENT_SECONDS
        ):
            self.recent_seconds -= self.recent.popleft()

    def describe(self, rank: int) -> RankProgress:
        seconds = self.step_seconds
        if seconds is None and self.recent:
            seconds = fmean(self.recent)
        return RankProgress(rank, self.host, self.phase, self.step, self.loss, seconds)


class Progress:
    """What the events of a run have said so far. A thread may add to it while others look."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._lock = threading.Lock()
        self._ranks: dict[int, _RankState] = {}
        self._alerts: dict[tuple[str, int], str] = {}
        self.run: Event | None = None
        """The first event, which says what runs where."""
        self.summary: Event | None = None
        """The last event."""
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Take in the next event."""
        with self._lock:
            kind = event["event"]
            if kind == "run":
                self.run = event
                self._reset_ranks()
            elif kind == "restarted":
                self._reset_ranks()
            elif kind == "alert":
                self._take_alert(event)
            elif kind == "summary":
                self.summary = event
                self._take_summary(event)
            elif kind in KINDS and event["rank"] is not None:
                self._take_rank_event(kind, event)

    @property
    def is_live(self) -> bool:
        """Return True if a launcher recorded the run when its events were asked for."""
        return self.run is not None and bool(self.run["live"])

    def list_ranks(self) -> list[RankProgress]:
        """Return where each rank is, in their order."""
        with self._lock:
            return [state.describe(rank) for rank, state in sorted(self._ranks.items())]

    def list_alerts(self) -> list[str]:
        """Return the titles of what is wrong now."""
        with self._lock:
            return [*self._alerts.values()]

    def _reset_ranks(self) -> None:
        places = self.run["plan"]["ranks"] if self.run else ()
        self._ranks = {place["rank"]: _RankState(place["host"]) for place in places}

    def _take_alert(self, event: Event) -> None:
        key = event["alarm"], event["subject"]
        if event["over"]:
            self._alerts.pop(key, None)
        else:
            self._alerts[key] = event["text"]["title"]

    def _take_rank_event(self, kind: str, event: Event) -> None:
        # A script may start ranks that the plan does not know.
        state = self._ranks.setdefault(event["rank"], _RankState(event["host"] or ""))
        if kind == "spawned":
            state.phase = "importing"
        elif kind == "entered":
            state.phase = event["phase"]
        elif kind == "step":
            state.phase = "training"
            state.step = event["step"]
            state.loss = event["loss"]
            if event["seconds"] is not None:
                state.take_seconds(event["seconds"])
        elif kind == "exited":
            fate = "failed" if event["code"] else "finished"
            state.phase = "stopped" if event["stopped"] else fate

    def _take_summary(self, summary: Event) -> None:
        for rank in summary["ranks"]:
            state = self._ranks.setdefault(rank["rank"], _RankState(rank["host"]))
            state.phase = rank["fate"]
            state.step = rank["step"]
            state.loss = rank["loss"]
            state.step_seconds = rank["means"]["iterations_from_2"]["seconds"]
        if summary["verdict"]:
            self._alerts.clear()
