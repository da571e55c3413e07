"""A script on hosts of a lab, of which one has half the CPU of the others: it is named, soon, and
no other is, however the script shares its gradients."""

from __future__ import annotations

import textwrap
from pathlib import Path

import psutil
import pytest

from remote.lab import quota
from remote.record.events_file import read_records
from remote.record.read import load_plan
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from tests.kit.labs import refused
from tests.kit.launches import launch
from tests.kit.slow import slow

pytestmark = pytest.mark.skipif(bool(refused()), reason=f"no lab can be made here: {refused()}")
CPUS = ("0.4", "0.2")
SLOW = 1
SOON = 40
"""Steps within which it is named."""
SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

way, steps = sys.argv[1:]
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(3)), nn.Linear(512, 10))
if way == "fsdp":
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
net = DistributedDataParallel(model) if way == "ddp" else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(int(steps)):
    inputs = torch.randn(512, 512)
    loss = nn.functional.cross_entropy(net(inputs), inputs[:, :10].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    if way == "all_reduce":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    optimizer.step()
dist.destroy_process_group()
"""


def go_first(launcher: psutil.Process) -> None:
    """Have the hosts of its lab go before all else on this machine: however busy that is, they get
    the cores that they are allowed."""
    base = quota.base()
    assert base
    lab = {str(process.pid) for process in launcher.children(recursive=True)}
    groups = [group for group in base.glob(f"{quota.PREFIX}*") if lab & {*group.name.split("-")}]
    assert len(groups) == len(CPUS)
    for group in groups:
        for name, most in (("cpu.shares", "262144"), ("cpu.weight", "10000")):
            if (group / name).exists():
                (group / name).write_text(most)


@pytest.mark.parametrize(
    "way", ["ddp", pytest.param("all_reduce", marks=slow), pytest.param("fsdp", marks=slow)]
)
def test_a_script_on_a_host_with_half_the_cpu(tmp_path: Path, way: str) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    hosts = ("--local", str(len(CPUS)), "--link", "1gbit", "--cpus", ",".join(CPUS))
    running = launch(tmp_path, *hosts, "--", "train.py", way, str(SOON + 5))
    running.events("spawned", len(CPUS))
    go_first(psutil.Process(running.process.pid))
    assert running.end() == 0, running.stderr()
    (folder,) = (path.parent for path in tmp_path.glob("runs/*/plan.json"))
    state, named = RunState(load_plan(folder)), dict[int, int]()
    for record in read_records(folder):
        apply_record(state, record)
        for one in state.stragglers.slow:
            named.setdefault(one.rank, state.step)
    assert [*named] == [SLOW]
    assert named[SLOW] <= SOON
    assert f"all ranks wait for rank {SLOW}" in running.stderr()
