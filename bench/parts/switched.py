"""A rank of bench/watch.py: runs a script whose watch is switched on and off as it trains.

python bench/parts/switched.py FILE SCRIPT ARGUMENT…

Writes a line to FILE at the end of each step: the time; the CPU seconds so far, and those of the
hooks of the watch; and whether the step was watched.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable
from typing import Any

SLICE = 10
"""Steps of a slice. Slices are watched, not, not, watched, and so on: a steady drift cancels."""


class Stopwatch:
    """Measures the hooks of the watch, watched or not."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, hook: Callable[..., None]) -> Callable[..., None]:
        """The hook, measured."""

        def call(*arguments: Any) -> None:
            begin = time.thread_time()
            hook(*arguments)
            self.seconds += time.thread_time() - begin

        return call


def main() -> None:
    """Run the script."""
    _, path, *sys.argv = sys.argv
    (finder,) = (one for one in sys.meta_path if type(one).__name__ == "ImportWatcher")
    type(finder).find_spec.__globals__["watch"]()  # loads it, before torch is imported
    hooks: Any = sys.modules["_rankboard_watch.hooks"]
    stopwatch, safe = Stopwatch(), hooks.Hooks._make_safe
    hooks.Hooks._make_safe = lambda *hook, **options: stopwatch.timed(safe(*hook, **options))
    from torch.optim.optimizer import register_optimizer_step_post_hook

    report: Any = finder.look.__self__._report  # type: ignore[attr-defined]
    made = 0
    with open(path, "w", 1 << 9) as file:

        def ended(*_: object) -> None:
            nonlocal made
            was, made = report.on, made + 1
            report.on = made // SLICE % 4 in (0, 3)
            file.write(
                f"{time.perf_counter():.6f} {time.process_time():.6f} {stopwatch.seconds:.6f} "
                f"{was:d}\n"
            )

        register_optimizer_step_post_hook(ended)
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
