"""Where the time of a step goes, measured from inside the loop without a collective, barrier or
synchronize of its own.

All methods share one definition. On the CPU a point in time is the wall clock's; on a GPU it is an
event on the compute stream, which is why a lap's figures are asked for one step late there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

Point = float | torch.cuda.Event


@dataclass(frozen=True, slots=True)
class Phases:
    """A step in seconds. `data` + `compute` + `sync` = `seconds`; `ready` and `cpu_seconds` stand
    beside them."""

    seconds: float
    data: float
    compute: float
    sync: float
    ready: float
    cpu_seconds: float

    def asdict(self) -> dict[str, Any]:
        """By the names that `Step` gives them."""
        return asdict(self)


@dataclass(slots=True)
class Lap:
    """The points of one step, from the end of the step before it to its own end. `figures` are
    what the sync method and others have added, by their names in `Step`."""

    start: Point
    gradient: Point
    loads: list[tuple[Point, Point]] = field(default_factory=list)
    waits: list[tuple[Point, Point]] = field(default_factory=list)
    waits_before_gradient: int = 0
    end: Point = 0.0
    cpu_seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)

    def phases(self) -> Phases:
        """The figures. On a GPU this waits until the step has ended there."""
        if isinstance(self.end, torch.cuda.Event):
            self.end.synchronize()
        waits = [_seconds(*wait) for wait in self.waits]
        seconds, data, sync = (
            _seconds(self.start, self.end),
            sum(_seconds(*load) for load in self.loads),
            sum(waits),
        )
        ready = _seconds(self.start, self.gradient) - sum(waits[: self.waits_before_gradient])
        return Phases(seconds, data, seconds - data - sync, sync, ready, self.cpu_seconds)


class Meter:
    """The stopwatch of a rank: `start`, then for each step `loading`, the gradients' hooks, waits,
    and `lap`."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self.start()

    def watch(self, model: nn.Module) -> None:
        """Notes when the model's gradients come. Call it on the bare model, once."""
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._gradient)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        """The next step starts now: at the beginning, and after an evaluation."""
        self._begin(self._now())

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Around what brings a batch to the device; a step's first load began with the step."""
        began = self._now() if self._lap.loads else self._lap.start
        yield
        self._lap.loads.append((began, self._now()))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around everything that blocks on other ranks."""
        began = self._now()
        try:
            yield
        finally:
            self._lap.waits.append((began, self._now()))

    def waited_since_gradient(self) -> None:
        """All time since the last gradient was waiting: for a method that communicates inside
        backward."""
        self._lap.waits.append((self._lap.gradient, self._now()))

    def add(self, name: str, value: int | float) -> None:
        """Adds to a figure of this step, which is 0 at its start; `name` is a field of `Step`."""
        self._lap.figures[name] = self._lap.figures.get(name, 0) + value

    def lap(self) -> Lap:
        """The step has ended, and the next one starts."""
        lap = self._lap
        lap.end = self._now()
        lap.cpu_seconds = time.process_time() - self._cpu
        self._begin(lap.end)
        return lap

    def _begin(self, now: Point) -> None:
        self._lap, self._cpu = Lap(now, now), time.process_time()

    def _gradient(self, _: torch.Tensor) -> None:
        self._lap.gradient = self._now()
        self._lap.waits_before_gradient = len(self._lap.waits)

    def _now(self) -> Point:
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def _seconds(begin: Point, end: Point) -> float:
    if isinstance(begin, float) and isinstance(end, float):
        return end - begin
    return float(begin.elapsed_time(end)) / 1000  # type: ignore[union-attr,arg-type]
