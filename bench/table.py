"""The assignment's table in the lab: VGG-11 on CIFAR-10 on one host, and on four hosts with three
methods, half a core for each host.

The timing follows the reference: the mean over the first 40 iterations but the first, and over the
hosts. Without the quota four hosts would share this machine's cores, and one process would be as
fast. A run is appended to the results when it ends; a run with results is not repeated. Prints
seconds per iteration and the speed-up over one host; last, whether DDP > all_reduce >
gather_scatter > 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from parts.contenders import COMMON, GIGABIT, RANKS
from parts.launched import events, of_kind, progress

ROWS = (
    ("one node", 1, "--sync none"),
    ("gather_scatter", RANKS, "--sync gather_scatter --sync-option granularity=parameter"),
    ("all_reduce", RANKS, "--sync all_reduce --sync-option granularity=parameter"),
    ("ddp", RANKS, "--sync ddp"),
)
"""From the slowest to the fastest, as the reference found them: name, nodes, flags."""


def measure(name: str, nodes: int, flags: str, given: argparse.Namespace) -> list[float]:
    """Seconds per iteration of each node."""
    words = [
        "--local",
        str(nodes),
        "--link",
        given.link,
        "--cpus",
        str(given.cpus),
        "--steps",
        str(given.steps),
    ]
    data = (
        ["--dataset", "cifar10", "--data-dir", given.data_dir, "--no-verify-data"]
        if given.data_dir
        else []
    )
    words += [*(data or ["--dataset", "synthetic"]), *COMMON, *flags.split()]
    with tempfile.TemporaryDirectory() as folder:
        made = of_kind(events(words, Path(folder), progress(name)), "step")
    later = [step for step in made if step["step"] > 1]
    return [
        statistics.fmean(step["seconds"] for step in later if step["rank"] == rank)
        for rank in range(nodes)
    ]


def read(results: Path, settings: dict[str, Any]) -> dict[str, list[list[float]]]:
    """Each row's runs with these settings, in a file of results: seconds per iteration of each
    node."""
    found: dict[str, list[list[float]]] = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        said = json.loads(line)
        if said["settings"] == settings:
            found.setdefault(said["name"], []).append(said["seconds"])
    return found


def show(found: dict[str, list[list[float]]]) -> None:
    """Prints the table, and whether the order is the assignment's: the median run of each row."""
    seconds = {name: statistics.median(map(statistics.fmean, runs)) for name, runs in found.items()}
    print(f"{'':16} runs  s/iter  speed-up  of the nodes, last run")
    for name, runs in found.items():
        nodes = ", ".join(f"{node:.3f}" for node in runs[-1])
        print(
            f"{name:16} {len(runs):4}  {seconds[name]:6.3f}  "
            f"{seconds['one node'] / seconds[name]:8.2f}  {nodes}"
        )
    print(verdict([seconds[name] for name, _, _ in ROWS]))


def verdict(seconds: Sequence[float]) -> str:
    """Whether each row is faster than the one before."""
    speed_ups = " > ".join(
        f"{name} {seconds[0] / took:.2f}"
        for (name, _, _), took in reversed([*zip(ROWS, seconds, strict=True)])
    )
    return (
        f"speed-up {speed_ups}: "
        f"{'yes' if all(slow > fast for slow, fast in pairwise(seconds)) else 'no'}"
    )


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--runs", type=int, default=1, help="of each row")
    parser.add_argument("--cpus", type=float, default=0.5, help="cores of each node")
    parser.add_argument("--link", default=GIGABIT)
    parser.add_argument(
        "--data-dir", default="", help="folder of cifar-10-batches-py (default: synthetic images)"
    )
    parser.add_argument("--results", type=Path, default=Path("table.jsonl"))
    given = parser.parse_args()
    settings = {
        "steps": given.steps,
        "cpus": given.cpus,
        "link": given.link,
        "data": bool(given.data_dir),
    }
    for turn in range(given.runs):
        for name, nodes, flags in ROWS:
            if len(read(given.results, settings).get(name, ())) > turn:
                continue
            seconds = measure(name, nodes, flags, given)
            with given.results.open("a") as file:
                file.write(
                    json.dumps(
                        {"name": name, "settings": settings, "flags": flags, "seconds": seconds}
                    )
                    + "\n"
                )
            print(f"{name}: {statistics.fmean(seconds):.3f} s per iteration", flush=True)
    show(read(given.results, settings))


if __name__ == "__main__":
    main()
