"""What a study compares, from the summaries of its runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def measured(metric: str, summary: Mapping[str, Any]) -> float | None:
    """The value of one run; None where it has none.

    `step_seconds` follows the reference's rule: the mean of iterations 2 to 40 over all ranks.
    """
    test = summary.get("test") or {}
    values = {
        "step_seconds": summary["means"]["iterations_2_to_40"]["seconds"],
        "elapsed": summary["training_seconds"],
        "loss": test.get("loss"),
        "accuracy": test.get("accuracy"),
    }
    value = values[metric]
    return float(value) if value is not None else None
