"""Seconds per iteration of our jobs against a plain DDP program (bench/parts/reference_ddp.py):
VGG-11, CIFAR-10, 4 hosts of the lab.

    python bench/iteration.py --link 1gbit --rounds 15 --data-dir DIR --results FILE
    python bench/iteration.py --report FILE

One process per host times all contenders in rounds; the first contender changes from round to
round. A round is appended to the results when it ends, so rounds of several calls add up. A ratio
compares a contender with the plain program in the same round; its median has a 95 % bootstrap
interval. Prints the table, ratios last. The jobs are in bench/parts/contenders.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from parts.contenders import CONTENDERS, GIGABIT, RANKS, REFERENCE, SLOW, able, chosen

from remote.lab.lab import Lab
from remote.lab.spec import parse

PROGRAM = "parts.contest"
"""The module that each host runs."""
RESAMPLES = 10_000


def rounds(link: str, words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What the program says of each round, as it runs on every host of a fresh lab."""
    with Lab.start(parse(RANKS, link)) as lab:
        world = {
            "WORLD_SIZE": RANKS,
            "LOCAL_WORLD_SIZE": 1,
            "LOCAL_RANK": 0,
            "MASTER_ADDR": lab.hosts[0].address,
        }
        world |= {
            "MASTER_PORT": 29500,
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": 1,
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": Path(__file__).parent,
        }
        ranks = []
        for number, host in enumerate(lab.hosts):
            env = os.environ | {
                key: str(value)
                for key, value in (world | {"RANK": number, "GROUP_RANK": number}).items()
            }
            command = [*lab.enter(host.name), sys.executable, "-m", PROGRAM, *words]
            out = None if number else subprocess.PIPE
            ranks.append(
                subprocess.Popen(command, env=env, stdout=out or subprocess.DEVNULL, text=True)
            )
        assert ranks[0].stdout
        for line in ranks[0].stdout:
            yield json.loads(line)
        if any(process.wait() for process in ranks):
            raise SystemExit("a rank failed")


def read(results: Path) -> list[dict[str, Any]]:
    """The rounds in a file of results; a line that was cut off is left out."""
    found = []
    for line in results.read_text().splitlines() if results.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def measure(given: argparse.Namespace) -> None:
    """Appends rounds to the results."""
    names = [contender.name for contender in able(chosen(given.contenders, given.add, given.link))]
    given.add = [text for text in given.add if text.partition(" ")[0] in names]
    names = [name for name in names if name not in {text.partition(" ")[0] for text in given.add}]
    what = {
        "link": given.link,
        "steps": given.steps,
        "data": "cifar10" if given.data_dir else "synthetic",
    }
    first = sum(known.items() >= what.items() for known in read(given.results))
    data_dir = os.path.abspath(given.data_dir) if given.data_dir else ""  # the ranks work elsewhere
    words = [
        "--rounds",
        str(given.rounds),
        "--first",
        str(first),
        "--steps",
        str(given.steps),
        "--data-dir",
        data_dir,
    ]
    words += ["--contenders", *names, *(f"--add={text}" for text in given.add)]
    flags = {contender.name: " ".join(contender.flags) for contender in chosen(names, given.add)}
    for found in rounds(given.link, words):
        with given.results.open("a") as file:
            file.write(json.dumps(what | found | {"flags": flags}) + "\n")
        took = ", ".join(f"{name} {seconds:.3f}" for name, seconds in found["seconds"].items())
        print(f"{given.link} round {found['round'] + 1}: {took}", flush=True)


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(
        statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    return medians[round(0.025 * RESAMPLES)], medians[round(0.975 * RESAMPLES) - 1]


def report(results: Path) -> None:
    """Prints a table per link, number of steps and data, with a line for each contender and for
    each set of flags it had."""
    tables: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for found in read(results):
        tables.setdefault((found["link"], found["steps"], found["data"]), []).append(found)
    for (link, steps, data), table in tables.items():
        print(f"{link}, {data}, iterations 2 to {steps}")
        print(f"{'':18} rounds   faults      cpu  seconds   ratio to {REFERENCE}, 95 % interval")
        rows = dict.fromkeys(
            (name, one["flags"].get(name)) for one in table for name in (REFERENCE, *one["seconds"])
        )
        for name, flags in rows:
            same = [
                one
                for one in table
                if {name, REFERENCE} <= one["seconds"].keys() and one["flags"].get(name) == flags
            ]
            show(name, link, same)


def show(name: str, link: str, found: Sequence[dict[str, Any]]) -> None:
    """Prints one contender's line."""
    if not found:
        return
    ratios = [one["seconds"][name] / one["seconds"][REFERENCE] for one in found]
    seconds, cpu, faults = (
        statistics.median(one[key][name] for one in found) for key in ("seconds", "cpu", "faults")
    )
    low, high = interval(ratios)
    limit = next(
        (contender.bounds.get(link, 0) for contender in CONTENDERS if contender.name == name), 0
    )
    verdict = f"  (at most {limit}: {'met' if high <= limit else 'missed'})" if limit else ""
    ratio = f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]{verdict}"
    print(f"{name:18} {len(found):6} {faults:8.0f}  {cpu:7.3f}  {seconds:7.3f}   {ratio}")


def main() -> None:
    """Measure, or report what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--link", default=GIGABIT, help=f"with bounds: {GIGABIT} and {SLOW}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--contenders",
        nargs="+",
        default=[],
        help="names (default: all that have their place at the link)",
    )
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="'NAME FLAGS'",
        help="one more, a job by its flags",
    )
    parser.add_argument(
        "--data-dir", default="", help="folder of cifar-10-batches-py (default: synthetic images)"
    )
    parser.add_argument("--results", type=Path, default=Path("iteration.jsonl"))
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing")
    given = parser.parse_args()
    if not given.report:
        measure(given)
    report(given.report or given.results)


if __name__ == "__main__":
    main()
