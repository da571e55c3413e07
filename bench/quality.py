"""What speed costs: loss and accuracy after one epoch of VGG-11 on CIFAR-10 (196 iterations), for
every job of the timing benchmark.

    python bench/quality.py --data-dir DIR --results FILE
    python bench/quality.py --report FILE

Runs the jobs of bench/parts/contenders.py with their options and several seeds, on four ranks of
this machine without a simulated network, which changes no result. A run is appended to the results
when it ends; a run with results is not repeated, so the benchmark can be continued. Prints mean and
range over the seeds: loss and accuracy on the test set, and the mean training loss of the last 20
iterations over all ranks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from parts.contenders import CONTENDERS, RANKS, Contender, able, chosen
from parts.launched import events, of_kind, progress

LAST = 20


@dataclass(frozen=True)
class Outcome:
    """One run's figures."""

    name: str
    flags: str
    seed: int
    steps: int
    test_loss: float
    test_accuracy: float
    train_loss: float


def run(contender: Contender, seed: int, steps: int, data_dir: str) -> Outcome:
    """Trains; `steps` 0 is an epoch."""
    words = [
        "--local",
        str(RANKS),
        "--dataset",
        "cifar10",
        "--data-dir",
        data_dir,
        "--no-verify-data",
        "--seed",
        str(seed),
    ]
    words += [*contender.words(), *(["--steps", str(steps)] if steps else ["--epochs", "1"])]
    with tempfile.TemporaryDirectory() as folder:
        said = events(words, Path(folder), progress(f"{contender.name}, seed {seed}"))
    made, evaluated = of_kind(said, "step"), of_kind(said, "evaluated")[-1]
    end = max(step["step"] for step in made)
    last = statistics.fmean(step["loss"] for step in made if step["step"] > end - LAST)
    return Outcome(
        contender.name,
        " ".join(contender.flags),
        seed,
        steps,
        evaluated["loss"],
        evaluated["accuracy"],
        last,
    )


def read(results: Path) -> list[Outcome]:
    """The runs in a file of results."""
    return (
        [Outcome(**json.loads(line)) for line in results.read_text().splitlines()]
        if results.exists()
        else []
    )


def measure(given: argparse.Namespace) -> None:
    """Runs what is not in the results yet; all jobs with one seed come before the next seed."""
    jobs = able(
        chosen(given.contenders, given.add) if given.contenders or given.add else CONTENDERS
    )
    known = {(one.name, one.flags, one.seed, one.steps) for one in read(given.results)}
    for seed in given.seeds:
        for contender in jobs:
            if (contender.name, " ".join(contender.flags), seed, given.steps) in known:
                continue
            outcome = run(contender, seed, given.steps, given.data_dir)
            with given.results.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
            print(
                f"{contender.name}, seed {seed}: test loss {outcome.test_loss:.3f}, "
                f"{outcome.test_accuracy:.2%}",
                flush=True,
            )


def spread(figures: Sequence[float], form: str) -> str:
    """Mean and range."""
    return f"{statistics.fmean(figures):{form}} ({min(figures):{form}} to {max(figures):{form}})"


def report(outcomes: Sequence[Outcome]) -> None:
    """Prints a line per job."""
    print(
        f"{'':18} seeds  {'test loss':24} {'test accuracy':30} training loss of the last {LAST} "
        "iterations"
    )
    for name, flags, steps in dict.fromkeys((one.name, one.flags, one.steps) for one in outcomes):
        of_job = [
            one for one in outcomes if (one.name, one.flags, one.steps) == (name, flags, steps)
        ]
        loss = spread([one.test_loss for one in of_job], ".3f")
        accuracy = spread([one.test_accuracy for one in of_job], ".2%")
        trained = spread([one.train_loss for one in of_job], ".3f")
        after = f"  (after {steps} iterations)" if steps else ""
        print(f"{name:18} {len(of_job):5}  {loss:24} {accuracy:30} {trained}{after}")


def main() -> None:
    """Run the jobs, or report what was run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--contenders", nargs="+", default=[], help="names (default: all)")
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="'NAME FLAGS'",
        help="one more, a job by its flags",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=0, help="iterations (default: an epoch)")
    parser.add_argument(
        "--data-dir", default="~/.cache/rankboard/data", help="folder of cifar-10-batches-py"
    )
    parser.add_argument("--results", type=Path, default=Path("quality.jsonl"))
    parser.add_argument("--report", type=Path, metavar="FILE", help="run nothing")
    given = parser.parse_args()
    if not given.report:
        measure(given)
    report(read(given.report or given.results))


if __name__ == "__main__":
    main()
