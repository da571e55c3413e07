"""When the last local gradient of a backward pass is there, where the pass then goes on to wait for
those of other ranks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

MOST_LEARNT = 8
"""How often it is learnt anew which gradient of a model comes last."""


class GradientWatch:
    """Calls `told` when gradients of the models in `watch` are there: in the first pass for each,
    then only for the one that came last, as a call for each costs time."""

    def __init__(self, note_gradient: Callable[[], None]) -> None:
        self._note_gradient = note_gradient
        self._models: list[_WatchedModel] = []

    def watch(self, model: Any) -> None:
        """Watch the gradients of this module, too."""
        self._models.append(_WatchedModel(model, self._note_gradient))

    def passed(self, *, told: bool) -> None:
        """Choose what to listen to, after a backward pass in which gradients were reported or
        not."""
        # The program may make a new model for each trial, and drop the one before.
        self._models = [model for model in self._models if model.is_alive()]
        for model in self._models:
            if told:
                model.keep_last()
            else:
                model.learn()


class _WatchedModel:
    def __init__(self, model: Any, note_gradient: Callable[[], None]) -> None:
        self._model = weakref.ref(model)
        self._note_gradient = note_gradient
        self._handles: dict[int, Any] = {}
        self._last_number = -1
        self._learnt_count = 0
        self.learn()

    def is_alive(self) -> bool:
        """Return True if the program still has the model."""
        return self._model() is not None

    def learn(self) -> None:
        """Listen to each gradient."""
        model = self._model()
        if model is None or self._learnt_count == MOST_LEARNT:
            return
        self._learnt_count += 1
        self._last_number = -1
        for number, parameter in enumerate(model.parameters()):
            if parameter.requires_grad and number not in self._handles:
                register_hook = getattr(  # torch 2.0 has only the hook that comes a moment earlier
                    parameter, "register_post_accumulate_grad_hook", parameter.register_hook
                )
                self._handles[number] = register_hook(partial(self._note, number))

    def _note(self, number: int, _: Any) -> None:
        self._last_number = number
        self._note_gradient()

    def keep_last(self) -> None:
        """Listen only to the gradient that came last."""
        if self._last_number < 0 or len(self._handles) == 1:
            return
        for number in [*self._handles]:
            if number != self._last_number:
                self._handles.pop(number).remove()
