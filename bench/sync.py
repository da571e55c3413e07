"""How close the sync methods come to the limit of the network: VGG-11's gradients over 4 hosts of
the lab, against the bound.

The time is everything after backward: packing the gradients, exchanging them, and waiting until all
are final. The slowest rank of each round counts; the methods take turns. Nothing overlaps with
computing. The bound is 2 (N-1)/N S/B for methods that spread the work, and (N-1) S/B for a star,
whose root has to receive and send that much. Prints each method's median milliseconds, then its
ratios to the bound and to the variant that sends one parameter at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from parts.contenders import cpu
from torch import distributed

from remote.lab.lab import Lab
from remote.lab.spec import parse, rate
from training import options, registry
from training.meter import Meter
from training.place import Place
from training.sync import SyncMethod

HOSTS = 4
METHODS = (
    "all_reduce granularity=parameter",
    "all_reduce granularity=flat",
    "all_reduce",
    "ring granularity=flat",
    "ring",
    "hierarchical",
    "gather_scatter granularity=parameter",
    "gather_scatter granularity=flat",
    "gather_scatter",
)
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Measured:
    """What a method took: median seconds of the rounds, and the least that the link allows."""

    name: str
    seconds: float
    bound: float


def prepare(name: str, model: torch.nn.Module, meter: Meter, precision: str) -> SyncMethod:
    """A method, given as its name and options, for a model whose gradients it is to reduce."""
    sync, *words = name.split()
    chosen = options.parse_options(options.declared_options(sync), words)
    method: SyncMethod = registry.load_module("sync", sync).Method(chosen, TYPES[precision])
    method.prepare(model, torch.optim.SGD(model.parameters(), 0.1), Place.read(), meter)
    return method


def act(names: Sequence[str], rounds: int, precision: str) -> None:
    """One rank: prints the seconds of each round of each method, as JSON."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    model, meter = registry.load_module("models", "vgg11").build(3, 10), Meter(torch.device("cpu"))
    torch.manual_seed(distributed.get_rank())
    gradients = [torch.randn_like(parameter) for parameter in model.parameters()]
    means = [gradient / distributed.get_world_size() for gradient in gradients]
    for mean in means:
        distributed.all_reduce(mean)
    methods = {name: prepare(name, model, meter, precision) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for turn in range(len(names)):
            name = names[(number + turn) % len(names)]
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient
            took = reduce(methods[name], model)
            if number:
                seconds[name].append(took)
            else:
                check(name, model, means, precision)
            meter.lap()
    print(json.dumps(seconds))
    distributed.destroy_process_group()


def reduce(method: SyncMethod, model: torch.nn.Module) -> float:
    """Seconds of one reduction."""
    distributed.barrier()
    began = time.perf_counter()
    method.reduce()
    return time.perf_counter() - began


def check(name: str, model: torch.nn.Module, means: Sequence[torch.Tensor], precision: str) -> None:
    """Ends the process where a method's gradients are not the means."""
    near = 1e-5 if precision == "fp32" else 0.1
    for parameter, mean in zip(model.parameters(), means, strict=True):
        if parameter.grad is None or not torch.allclose(parameter.grad, mean, atol=near):
            raise SystemExit(f"{name}: a gradient is not the mean over the ranks")


def measure(names: Sequence[str], link: str, rounds: int, precision: str) -> list[Measured]:
    """Run all methods on every host of a fresh lab."""
    words = ["--link", link, "--rounds", str(rounds), "--precision", precision, "--methods", *names]
    with Lab.start(parse(HOSTS, link)) as lab:
        world = {
            "WORLD_SIZE": HOSTS,
            "LOCAL_WORLD_SIZE": 1,
            "LOCAL_RANK": 0,
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": 1,
        }
        world |= {"MASTER_ADDR": lab.hosts[0].address, "MASTER_PORT": 29500}
        ranks = []
        for number, host in enumerate(lab.hosts):
            env = os.environ | {
                key: str(value)
                for key, value in (world | {"RANK": number, "GROUP_RANK": number}).items()
            }
            command = [*lab.enter(host.name), sys.executable, __file__, "--rank", *words]
            ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate()[0] for process in ranks]
        if any(process.returncode for process in ranks):
            raise SystemExit("a rank failed")
    said = [json.loads(output) for output in outputs]
    slowest = {
        name: [max(seconds) for seconds in zip(*(rank[name] for rank in said), strict=True)]
        for name in names
    }
    return [
        Measured(name, statistics.median(slowest[name]), bound(name, link, precision))
        for name in names
    ]


def bound(name: str, link: str, precision: str) -> float:
    """The seconds that the link's rate allows at best."""
    model = registry.load_module("models", "vgg11").build(3, 10)
    bits = (
        8 * TYPES[precision].itemsize * sum(parameter.numel() for parameter in model.parameters())
    )
    times = HOSTS - 1 if name.startswith("gather_scatter") else 2 * (HOSTS - 1) / HOSTS
    return float(times * bits / rate(link))


def show(found: Sequence[Measured]) -> None:
    """The figures, the ratios last."""
    for method in found:
        print(
            f"{method.name:40} {1000 * method.seconds:7.0f} ms, bound {1000 * method.bound:.0f} ms"
        )
    listings = {
        method.name.split()[0]: method.seconds
        for method in found
        if "granularity=parameter" in method.name
    }
    print(
        "ratio to the bound, and to the listing by parameters (of gather_scatter for "
        "gather_scatter, else of all_reduce):"
    )
    for method in found:
        kind = "gather_scatter" if method.name.startswith("gather_scatter") else "all_reduce"
        beside = f"{method.seconds / listings[kind]:.2f}" if kind in listings else "-"
        print(f"{method.name:40} {method.seconds / method.bound:.2f} {beside}")


def main() -> None:
    """Measure the methods, or be one rank of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--methods", nargs="+", default=METHODS, help="each a name and its options in one word"
    )
    parser.add_argument("--link", default="1gbit")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--precision", choices=TYPES, default="fp32", help="of the gradients on the wire"
    )
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        act(arguments.methods, arguments.rounds, arguments.precision)
    else:
        print(cpu(), flush=True)
        show(measure(arguments.methods, arguments.link, arguments.rounds, arguments.precision))


if __name__ == "__main__":
    main()
