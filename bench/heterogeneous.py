"""All-reduce against a parameter server, on equal hosts and with one host that has half the CPU of
the others: VGG-11 in the lab.

Every run uses the same images. `ddp` waits for the slowest rank in each step; with `mode=async` no
rank waits before the end of an epoch. Images per second are counted while all ranks train (from the
first step of the last rank to the last step of the first rank that is done) and over the whole run.
The loss shows what staleness costs: the training loss over the last quarter of each rank's steps,
and the test loss at the end. The methods take turns, in changing order. Uses CIFAR-10 in
--data-dir, or synthetic images. Other flags go to the job. Prints a row for each method and kind of
hosts, with medians over the rounds; the ratios of the parameter server to ddp last.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path

from remote.record.events_file import read_records as read
from training.wire.events import Record, split_steps
from training.wire.rank_events import Evaluated, StepFinished

RANKBOARD = Path(sys.executable).parent / "rankboard"
HOSTS = 4
CPUS = {"equal": "0.5", "one slow": "0.5,0.5,0.5,0.25"}
"""Cores of the hosts: the server is on the first, the last is the slow one."""
METHODS = {
    "ddp": ("--sync", "ddp"),
    "server trains too": ("--sync", "parameter_server", "--sync-option", "mode=async"),
    "dedicated server": (
        "--sync",
        "parameter_server",
        "--sync-option",
        "mode=async",
        "--sync-option",
        "dedicated=yes",
    ),
}
BATCH, CIFAR10, SYNTHETIC = 256, 50_000, 4096
"""The global batch, and how many images there are for the one epoch that all steps are of."""
SETTINGS = (
    "--model",
    "vgg11",
    "--batch-size",
    str(BATCH),
    "--lr",
    "0.02",
    "--momentum",
    "0",
    "--weight-decay",
    "1e-4",
)
"""Without momentum, as gradients that come late act like momentum by themselves: on top of 0.9 they
train badly."""


@dataclass(frozen=True)
class Measured:
    """Images per second while all ranks train and over the whole run, the losses, and the mean
    staleness."""

    together: float
    whole: float
    train_loss: float
    test_loss: float
    staleness: float


def measure(cpus: str, method: Iterable[str], job: Sequence[str], link: str) -> Measured:
    """One run in a fresh lab."""
    with tempfile.TemporaryDirectory() as folder:
        lab = ("--local", str(HOSTS), "--link", link, "--cpus", cpus)
        command = [str(RANKBOARD), "--run", *lab, "--runs-dir", folder, *method, *job]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{done.stderr}\n{' '.join(command)} failed")
        (run,) = (path.parent for path in Path(folder).glob("*/events.jsonl"))
        return figures(list(read(run)))


def figures(records: Iterable[Record]) -> Measured:
    """What the records of a run say. Each rank's first step counts for nothing."""
    times: dict[int, list[tuple[float, StepFinished]]] = {}
    tested = []
    for record in chain.from_iterable(map(split_steps, records)):
        if isinstance(record.event, StepFinished):
            times.setdefault(record.event.rank, []).append((record.time, record.event))
        elif isinstance(record.event, Evaluated):
            tested.append(record.event.loss)
    steps = [each for of_rank in times.values() for each in of_rank]
    begin, first = (
        max(of_rank[0][0] for of_rank in times.values()),
        min(of_rank[-1][0] for of_rank in times.values()),
    )
    last = max(time for time, _ in steps)
    together = sum(step.samples for time, step in steps if begin < time <= first) / (first - begin)
    whole = sum(step.samples for time, step in steps if begin < time) / (last - begin)
    late = statistics.fmean(
        step.loss for of_rank in times.values() for _, step in of_rank[-(len(of_rank) // 4 or 1) :]
    )
    return Measured(
        together, whole, late, tested[-1], statistics.fmean(step.staleness for _, step in steps)
    )


def main() -> None:
    """Run each method on each kind of hosts, several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        help="default: 24, or 16 with synthetic images, which are fewer",
    )
    parser.add_argument("--link", default="1gbit")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("RANKBOARD_DATA", "../shared/data"))
    )
    arguments, more = parser.parse_known_args()
    real = (arguments.data_dir / "cifar-10-batches-py").is_dir()
    images = CIFAR10 if real else SYNTHETIC
    steps = arguments.steps or min(24, images // BATCH)
    if steps * BATCH > images:
        parser.error(
            f"--steps {steps}: there are images for {images // BATCH} steps; at the end of an "
            "epoch all ranks wait"
        )
    job = [*SETTINGS, "--steps", str(steps), *more]
    if real:
        files = ["--data-dir", str(arguments.data_dir.absolute()), "--no-verify-data"]
        job += ["--dataset", "cifar10", *files, "--limit", str(steps * BATCH)]
    else:
        job += ["--dataset", "synthetic"]
    names = list(dict.fromkeys(["ddp", *arguments.methods]))
    show(names, run_rounds(arguments.rounds, names, job, arguments.link))


def run_rounds(
    rounds: int, names: Sequence[str], job: Sequence[str], link: str
) -> dict[tuple[str, str], list[Measured]]:
    """The measurements by kind of hosts and method, one per round."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for number in range(rounds):
        for kind, cpus in CPUS.items():
            for turn in range(len(names)):
                name = names[(number + turn) % len(names)]
                one = measure(cpus, METHODS[name], job, link)
                found.setdefault((kind, name), []).append(one)
                text = f"round {number + 1}, {kind}, {name}: {one.together:.1f} images/s"
                print(text, file=sys.stderr, flush=True)
    return found


def show(names: Sequence[str], found: dict[tuple[str, str], list[Measured]]) -> None:
    """The medians, the ratios last."""
    print(
        f"{'hosts':10}{'method':18}{'images/s together':>19}{'in all':>9}"
        f"{'train loss':>12}{'test loss':>11}{'staleness':>11}"
    )
    for (kind, name), runs in sorted(
        found.items(), key=lambda item: (list(CPUS).index(item[0][0]), names.index(item[0][1]))
    ):
        row = [statistics.median(getattr(run, of.name) for run in runs) for of in fields(Measured)]
        print(
            f"{kind:10}{name:18}{row[0]:19.1f}{row[1]:9.1f}{row[2]:12.3f}{row[3]:11.3f}{row[4]:11.2f}"
        )
    for name in names[1:]:
        ratios = []
        for kind in CPUS:
            pairs = zip(found[kind, name], found[kind, "ddp"], strict=True)
            ratios.append(
                f"{kind} {statistics.median(one.together / ddp.together for one, ddp in pairs):.2f}"
            )
        print(f"{name} / ddp, images per second while all train: {', '.join(ratios)}")


if __name__ == "__main__":
    main()
