"""The methods that keep one model are as good as one process on the joined batch, step by step."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from training_ranks import ROOT, Ranks, run

from training.job import Job

STEPS = 12
BATCH = 10
"""Split unevenly by three ranks."""

Runs = Callable[[str, int], Ranks]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs a small job with a method on a number of ranks, once each."""
    made: dict[tuple[str, int], Ranks] = {}

    def result(sync: str, world: int) -> Ranks:
        if (sync, world) not in made:
            job = Job(sync=sync, steps=STEPS, batch_size=BATCH, momentum=0.9, weight_decay=1e-4, log_every=5)
            made[sync, world] = run(tmp_path_factory.mktemp(f"{sync}{world}"), job, world)
        return made[sync, world]

    return result


def joined_losses(ranks: Ranks) -> list[float]:
    """The loss over the global batch of each step."""
    steps = zip(*(ranks.steps(rank) for rank in range(ranks.world)), strict=True)
    return [sum(step.loss * step.samples for step in of_ranks) / BATCH for of_ranks in steps]


@pytest.mark.parametrize("sync", ["all_reduce", "ddp"])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_exact_methods_follow_one_process_on_the_joined_batch(runs: Runs, sync: str, world: int) -> None:
    many, one = runs(sync, world), runs("none", 1)
    assert joined_losses(many) == pytest.approx(joined_losses(one), abs=1e-4)
    assert many.evaluated(0)[-1].loss == pytest.approx(one.evaluated(0)[-1].loss, abs=1e-4)


@pytest.mark.parametrize("world", [2, 3])
def test_exact_methods_agree_on_every_rank(runs: Runs, world: int) -> None:
    for rank in range(world):
        losses = [[step.loss for step in runs(sync, world).steps(rank)] for sync in ("all_reduce", "ddp")]
        assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_ranks_that_never_talk_part_ways_and_it_is_said(runs: Runs) -> None:
    apart = runs("none", 2)
    assert joined_losses(apart) != pytest.approx(joined_losses(runs("none", 1)), abs=1e-4)
    assert "--sync none: the ranks' models differ" in apart.out(0)
    assert "models differ" not in apart.out(1)
    assert {step.bytes_sent for step in apart.steps(0)} == {0}


@pytest.mark.parametrize("sync", ["all_reduce", "ddp"])
def test_bytes_sent_are_a_rings(runs: Runs, sync: str) -> None:
    gradients = 4 * 61_706
    assert {step.bytes_sent for step in runs(sync, 3).steps(1)} == {2 * 2 * gradients // 3}
    assert {step.bytes_sent for step in runs(sync, 1).steps(0)} == {0}


NETS = '''
import json, os, sys
import torch
from datetime import timedelta
from torch import distributed, nn
from training import registry
from training.datasets import Images
from training.evaluate import evaluate
from training.meter import Meter
from training.place import Place

class Net(nn.Module):
    """One layer with BatchNorm, and a parameter that nothing uses."""
    def __init__(self, unused):
        super().__init__()
        self.norm, self.layer = nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.unused = nn.Parameter(torch.ones(3)) if unused else None
    def forward(self, x):
        return self.layer(self.norm(x.flatten(1)))

def rank_main(rank, world, sync, folder):
    store = distributed.FileStore(f"{folder}/store", world)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=30))
    torch.manual_seed(rank)
    net = Net(unused=sync == "all_reduce")
    place, meter = Place(rank, rank, world, world), Meter(torch.device("cpu"))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    method = registry.load("sync", sync).Method()
    model = method.prepare(net, optimizer, place, meter)
    meter.watch(net)
    start = [p.tolist() for p in net.parameters()] + [b.tolist() for b in net.buffers()]
    meter.start()
    model(torch.randn(5, 1, 2, 2) + rank).square().sum().backward()
    method.reduce(net)
    grads = [None if p.grad is None else p.grad.tolist() for p in net.parameters()]
    method.step(optimizer)
    sync_seconds = meter.lap().phases().sync
    own = net.norm.running_mean.tolist()
    method.settle(net)
    pixels = torch.arange(7 * 4, dtype=torch.uint8).view(7, 1, 2, 2)
    images = Images(pixels, torch.arange(7) % 2, 2, (0.5,), (0.5,))
    merged = evaluate(net, images, place, torch.device("cpu"))
    alone = evaluate(net, images, Place(), torch.device("cpu"))
    figures = [[e.loss, e.accuracy, e.samples] for e in (merged, alone)]
    said = dict(start=start, grads=grads, own=own, settled=net.norm.running_mean.tolist(), figures=figures, sync=sync_seconds)
    json.dump(said, open(f"{folder}/{rank}.json", "w"))

sync, world, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
pids = []
for rank in range(world):
    if (pid := os.fork()) == 0:
        rank_main(rank, world, sync, folder)
        sys.stdout.flush()
        os._exit(0)
    pids.append(pid)
sys.exit(max(os.waitpid(pid, 0)[1] for pid in pids))
'''


@pytest.mark.parametrize("sync", ["all_reduce", "ddp"])
def test_one_state_one_gradient_and_one_evaluation_on_all_ranks(sync: str, tmp_path: Path) -> None:
    env = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", NETS, sync, "3", str(tmp_path)], cwd=ROOT, env=env, check=True, timeout=60)
    said = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]

    assert said[0]["start"] == said[1]["start"] == said[2]["start"]
    assert said[0]["grads"] == said[1]["grads"] == said[2]["grads"]
    assert (None in said[0]["grads"]) == (sync == "all_reduce"), "a parameter without gradient keeps none"
    assert all(rank["sync"] > 0 for rank in said)

    assert said[0]["own"] != said[1]["own"], "running figures are each rank's own until the model settles"
    assert said[0]["own"] == said[0]["settled"] == said[1]["settled"] == said[2]["settled"]

    merged, alone = zip(*(rank["figures"] for rank in said), strict=True)
    assert merged[0] == merged[1] == merged[2], "merged figures are equal on all ranks"
    assert merged[0][1:] == alone[0][1:]
    assert merged[0][0] == pytest.approx(alone[0][0], abs=1e-6)
