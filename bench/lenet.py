"""LeNet-5 on 100 images of MNIST for 100 epochs, on four local ranks: the seconds of training, and
whether the methods agree.

Global batches of 100 and of 20, with `ring` and with `all_reduce`, in buckets and flat. Prints for
each run the seconds of training (the epochs of the slowest rank, without start-up and evaluations)
and the accuracy of the last epoch on all training images; last, the largest difference between the
methods' losses of an epoch on a rank, and the ratio of the slowest run to 3 s.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

from parts.launched import events, of_kind, progress

RANKS, LIMIT = 4, 3.0
METHODS = {
    "ring": ("--sync", "ring"),
    "all_reduce flat": ("--sync", "all_reduce", "--sync-option", "granularity=flat"),
    "all_reduce": ("--sync", "all_reduce"),
}
BATCHES = (100, 20)
JOB = (
    "--model",
    "lenet5",
    "--dataset",
    "mnist",
    "--no-verify-data",
    "--limit",
    "100",
    "--epochs",
    "100",
    "--lr",
    "0.01",
)


def measure(name: str, batch: int, data_dir: Path) -> list[dict[str, Any]]:
    """What the ranks said of each epoch."""
    words = (
        "--local",
        str(RANKS),
        *JOB,
        "--data-dir",
        str(data_dir),
        "--batch-size",
        str(batch),
        *METHODS[name],
    )
    with tempfile.TemporaryDirectory() as folder:
        return of_kind(events(words, Path(folder), progress(f"{name}, batch {batch}")), "epoch")


def seconds(epochs: list[dict[str, Any]]) -> float:
    """Of training, on the slowest rank."""
    return max(
        math.fsum(one["seconds"] for one in epochs if one["rank"] == rank) for rank in range(RANKS)
    )


def accuracy(epochs: list[dict[str, Any]]) -> float:
    """Of the last epoch, over the samples of all ranks."""
    last = epochs[-1]["epoch"]
    of_ranks = [(one["accuracy"], one["samples"]) for one in epochs if one["epoch"] == last]
    return math.fsum(part * samples for part, samples in of_ranks) / math.fsum(
        samples for _, samples in of_ranks
    )


def losses(epochs: list[dict[str, Any]]) -> dict[tuple[int, int], float]:
    """By rank and epoch."""
    return {(one["rank"], one["epoch"]): one["loss"] for one in epochs}


def main() -> None:
    """Run each method with each batch."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of MNIST")
    given = parser.parse_args()
    slowest, furthest = 0.0, 0.0
    for batch in BATCHES:
        found = {name: measure(name, batch, given.data_dir.absolute()) for name in METHODS}
        for name, epochs in found.items():
            print(
                f"batch {batch:3}  {name:16} {seconds(epochs):6.2f} s  accuracy "
                f"{accuracy(epochs):.1%}",
                flush=True,
            )
        first, *others = map(losses, found.values())
        furthest = max(
            furthest, *(abs(loss - other[key]) for other in others for key, loss in first.items())
        )
        if batch == BATCHES[0]:
            slowest = max(seconds(found[name]) for name in ("ring", "all_reduce flat"))
    print(f"losses of an epoch on a rank differ by at most {furthest:.1e}")
    print(
        f"batch {BATCHES[0]}, the slower of ring and all_reduce flat: {slowest:.2f} s, "
        f"{slowest / LIMIT:.2f} of {LIMIT:.0f} s"
    )


if __name__ == "__main__":
    main()
