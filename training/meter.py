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

from training.watch.clock import Point
from training.watch.steps import StepSoFar


@dataclass
class MeteredStep(StepSoFar):
    """One step, from the end of the step before it to its own end. `figures` are what the sync
    method and others have added, by their names in `StepFinished`."""

    figures: dict[str, Any] = field(default_factory=dict)

    def phases(self) -> dict[str, Any]:
        """Return the phases. On a GPU this waits until the step has ended."""
        if isinstance(self.end, torch.cuda.Event):
            self.end.synchronize()
        return super().phases()


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
                parameter.register_post_accumulate_grad_hook(self._note_gradient)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        """Start the next step: at the beginning, and after an evaluation."""
        self._begin_step(self._now())

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Surround the loading of a batch to the device; the first load of a step begins with the
        step."""
        began_at = self._now() if self._present_step.loads else self._present_step.start
        yield
        self._present_step.loads.append((began_at, self._now()))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Surround everything that blocks on other ranks."""
        began_at = self._now()
        try:
            yield
        finally:
            self._present_step.waits.append((began_at, self._now()))

    def waited_since_gradient(self) -> None:
        """Count all time since the last gradient as waiting: for a method that communicates inside
        backward."""
        lap = self._present_step
        lap.waits.append((lap.gradient or lap.start, self._now()))

    def add(self, name: str, value: int | float) -> None:
        """Add to a figure of this step, 0 at its start; `name` is a field of `StepFinished`."""
        self._present_step.figures[name] = self._present_step.figures.get(name, 0) + value

    def lap(self) -> MeteredStep:
        """End the step and start the next one."""
        ended_step = self._present_step
        ended_step.end = self._now()
        ended_step.cpu = time.process_time() - self._cpu_start
        self._begin_step(ended_step.end)
        return ended_step

    def _begin_step(self, now: Point) -> None:
        self._present_step = MeteredStep(now)
        # Of all threads: backward and exchanges run in some of their own.
        self._cpu_start = time.process_time()

    def _note_gradient(self, _: Tensor) -> None:
        self._present_step.note_gradient(self._now())

    def _now(self) -> Point:
        if not self._on_gpu:
            return time.perf_counter()
        # Blocking: who waits for the event sleeps, and leaves the core to others.
        event = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        event.record()
        return event
