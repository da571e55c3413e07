"""`python -m tests.simulation`: simulate seeds, and tell the story of one that fails."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.checks import Violation
from tests.simulation.patches import simulated
from tests.simulation.scenario import Scenario, draw_scenario
from tests.simulation.shrink import problem_of, shrink
from tests.simulation.world import World

PART = 50
"""Seeds that a process takes at a time."""


def main() -> int:
    """Simulate. Returns 1 where a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="tell the story of this one")
    parser.add_argument("--seeds", type=int, default=500, help="simulate as many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--most", type=int, default=1, help="go on until as many have failed")
    parser.add_argument("--whole", action="store_true", help="do not look for fewer faults")
    given = parser.parse_args()
    if given.seed is not None:
        tell(draw_scenario(given.seed), whole=given.whole)
        return 0
    return simulate(given.first, given.seeds, given.most, whole=given.whole)


def simulate(first: int, seeds: int, most: int, *, whole: bool) -> int:
    """Simulate so many seeds, on all cores, until `most` have failed. Returns 1 where one has."""
    began, done, failed = time.perf_counter(), 0, 0
    with ProcessPoolExecutor() as pool:
        parts = [
            pool.submit(problems, at, min(PART, first + seeds - at))
            for at in range(first, first + seeds, PART)
        ]
        for part in parts:
            if failed >= most:
                part.cancel()
                continue
            found = part.result()
            done += PART
            for seed, problem in found.items():
                failed += 1
                print(f"seed {seed}: {problem}", flush=True)
                if most == 1:
                    tell(draw_scenario(seed), whole=whole)
    seconds = time.perf_counter() - began
    print(f"{min(done, seeds)} seeds, {failed} failed, {min(done, seeds) / seconds:.0f} seeds/s")
    return int(failed > 0)


def problems(first: int, count: int) -> dict[int, str]:
    """What goes wrong with these seeds."""
    with simulated():
        found = {seed: problem_of(draw_scenario(seed)) for seed in range(first, first + count)}
    return {seed: problem for seed, problem in found.items() if problem}


def tell(scenario: Scenario, *, whole: bool) -> None:
    """Print a scenario, shrunk where it fails, and what happens in it."""
    with simulated():
        problem = problem_of(scenario)
        if problem and not whole:
            scenario = shrink(scenario, problem)
        world = World(scenario, tells=True)
        print(scenario)
        try:
            world.run()
        except Violation as error:
            world.story.append(f"{error}")
        finally:
            print("\n".join(world.story))


if __name__ == "__main__":
    sys.exit(main())
