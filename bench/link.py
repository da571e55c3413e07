"""Whether the lab's networks have the rate that they claim: a plain all_reduce of VGG-11's
gradients over 4 hosts, against the bound.

The bound is 2 (N-1)/N S/B: every host has to send and receive that much. The program uses torch
only. Prints the median seconds and the bound of each rate, and their ratio last (at least 1;
headers and acknowledgements take 4 to 7 %).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

from remote.lab.lab import Lab
from remote.lab.spec import parse, rate

HOSTS = 4
FLOATS = 9_231_114
PROGRAM = """
import json, sys, time, torch, torch.distributed as dist
rounds, floats = map(int, sys.argv[1:])
torch.set_num_threads(1)
dist.init_process_group("gloo")
gradients, seconds = torch.zeros(floats), []
for _ in range(rounds + 1):
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(gradients)
    seconds.append(time.perf_counter() - began)
print(json.dumps(seconds[1:]))
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Measured:
    """Median seconds of one all_reduce at a rate, and the least that the rate allows."""

    seconds: float
    bound: float


def measure(link: str, rounds: int) -> Measured:
    """Run the program on every host of a fresh lab."""
    spec = parse(HOSTS, link)
    with Lab.start(spec) as lab:
        world = {
            "WORLD_SIZE": HOSTS,
            "MASTER_ADDR": lab.hosts[0].address,
            "MASTER_PORT": 29500,
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        ranks = []
        for number, host in enumerate(lab.hosts):
            env = os.environ | {
                key: str(value) for key, value in (world | {"RANK": number}).items()
            }
            command = [
                *lab.enter(host.name),
                sys.executable,
                "-c",
                PROGRAM,
                str(rounds),
                str(FLOATS),
            ]
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate()[0] for process in ranks]
        if any(process.returncode for process in ranks):
            raise SystemExit("a rank failed")
    slowest = [max(seconds) for seconds in zip(*map(json.loads, outputs), strict=True)]
    bits = 8 * 4 * FLOATS
    return Measured(statistics.median(slowest), 2 * (HOSTS - 1) / HOSTS * bits / rate(link))


def main() -> None:
    """Measure each rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", nargs="+", default=["1gbit", "100mbit"])
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    ratios = []
    for link in arguments.links:
        found = measure(link, arguments.rounds)
        ratios.append(f"{link} {found.seconds / found.bound:.2f}")
        what = f"{link}: all_reduce of {4 * FLOATS / 1e6:.1f} MB over {HOSTS} hosts"
        print(f"{what} {found.seconds:.3f} s, bound {found.bound:.3f} s", flush=True)
    print(f"measured / bound, median of {arguments.rounds} rounds: {', '.join(ratios)}")


if __name__ == "__main__":
    main()
