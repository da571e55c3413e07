"""The time from the command to the first training step of all four local ranks: rankboard against
torchrun, with the same job.

The two take turns in pairs, in changing order. Prints each pair, and the median ratio last (below
1: rankboard is faster).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from training.wire.events import PREFIX

RANKS = 4
JOB = ("--sync", "ddp", "--model", "lenet5", "--dataset", "digits", "--steps", "3")
BIN = Path(sys.executable).parent


def first_step(command: list[str], prefix: str, folder: str) -> float:
    """Seconds from starting the command until the last of the ranks has told of a step."""
    began, seen = time.perf_counter(), set[int]()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if not line.startswith(prefix):
                continue
            event = json.loads(line[len(prefix) :])
            if event["event"] == "step":
                seen.add(event["rank"])
            if len(seen) == RANKS:
                taken = time.perf_counter() - began
                break
        process.stdout.read()
    if process.returncode or len(seen) < RANKS:
        raise SystemExit(f"{command[0]} failed with {process.returncode}")
    return taken


def main() -> None:
    """Run the pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12)
    pairs = parser.parse_args().pairs
    ours = [str(BIN / "rankboard"), "--run", "--json", "--local", str(RANKS), *JOB]
    theirs = [str(BIN / "torchrun"), "--nproc-per-node", str(RANKS), "-m", "training", *JOB]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        first_step(ours, "", folder), first_step(theirs, PREFIX, folder)  # warm the page cache
        for pair in range(pairs):
            if pair % 2:
                b = first_step(theirs, PREFIX, folder)
                a = first_step(ours, "", folder)
            else:
                a = first_step(ours, "", folder)
                b = first_step(theirs, PREFIX, folder)
            ratios.append(a / b)
            print(
                f"pair {pair + 1:2}: rankboard {a:5.2f} s, torchrun {b:5.2f} s, ratio {a / b:.2f}",
                flush=True,
            )
    print(
        f"start-up, rankboard / torchrun, median of {pairs} pairs: {statistics.median(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
