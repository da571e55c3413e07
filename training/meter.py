"""Measures where the time of a step goes, from inside the loop, without a collective, barrier or
synchronize of its own.

All methods share one definition. On a CPU a point in time is a reading of the wall clock; on a GPU
it is an event on the compute stream, so the figures of a step are read one step later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

Point = float | torch.cuda.Event


@dataclass(slots=True)
class StepTimes:
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

    def phases(self) -> dict[str, Any]:
        """Return the seconds of the step and of its phases, by the names of their fields in `Step`:
        `data` + `compute` + `sync` = `seconds`; `ready` and `cpu_seconds` overlap with them. On a
        GPU this waits until the step has ended."""
        if isinstance(self.end, torch.cuda.Event):
            self.end.synchronize()
        waits = [_seconds(*wait) for wait in self.waits]
        seconds = _seconds(self.start, self.end)
        data = sum(_seconds(*load) for load in self.loads)
        sync = sum(waits)
        ready = _seconds(self.start, self.gradient) - sum(waits[: self.waits_before_gradient])
        return {
            "seconds": seconds,
            "data": data,
            "compute": seconds - data - sync,
            "sync": sync,
            "ready": ready,
            "cpu_seconds": self.cpu_seconds,
        }


class Meter:
    """The stopwatch of a rank. Call `start` once, then in each step `loading`, `waiting` as needed,
    and `lap`; hooks note the gradients."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self.start()

    def watch(self, model: Module) -> None:
        """Note when the model's gradients arrive. Called once, with the bare model."""
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._gradient)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        """Start the next step: at the beginning, and after an evaluation."""
        self._begin(self._now())

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Surround the loading of a batch to the device; the first load of a step begins with the
        step."""
        began = self._now() if self._lap.loads else self._lap.start
        yield
        self._lap.loads.append((began, self._now()))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Surround everything that blocks on other ranks."""
        began = self._now()
        try:
            yield
        finally:
            self._lap.waits.append((began, self._now()))

    def waited_since_gradient(self) -> None:
        """Count all time since the last gradient as waiting: for a method that communicates inside
        backward."""
        self._lap.waits.append((self._lap.gradient, self._now()))

    def add(self, name: str, value: int | float) -> None:
        """Add to a figure of this step, which is 0 at its start; `name` is a field of `Step`."""
        self._lap.figures[name] = self._lap.figures.get(name, 0) + value

    def lap(self) -> StepTimes:
        """End the step and start the next one."""
        lap = self._lap
        lap.end = self._now()
        lap.cpu_seconds = time.process_time() - self._cpu
        self._begin(lap.end)
        return lap

    def _begin(self, now: Point) -> None:
        self._lap = StepTimes(now, now)
        self._cpu = time.process_time()

    def _gradient(self, _: Tensor) -> None:
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
