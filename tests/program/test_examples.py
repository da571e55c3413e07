"""The examples, unchanged, under rankboard and under torchrun: loss, steps and the split of an
iteration are seen, and both train the same model."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.kit.launches import run
from tests.kit.slow import slow

EXAMPLES = Path(__file__).absolute().parents[2] / "examples"
STEPS = 20
NEEDS = {
    "accelerate_loop": "accelerate",
    "lightning_fit": "lightning",
    "hf_trainer": "transformers",
}
READ_AS = {"accelerate_loop": "name=value", "hf_trainer": "Hugging Face Trainer"}
"""What the logs of examples are read as, of those that print each so many steps."""
NAMES = ("ddp", "fsdp", "silent", "accelerate_loop", "lightning_fit", "hf_trainer")
"""`tests.ranks.test_examples` has the first four, on ranks that cost less. Lightning trains as
`by_closure` of `tests.ranks.test_watch`, and a Trainer of Hugging Face by Accelerate."""
TORCHRUN = """
import atexit, os, runpy, sys, time
from pathlib import Path
import torch

def backward(loss, *args, real=torch.Tensor.backward, **named):
    Path("loss-" + os.environ["RANK"]).write_text(repr(loss.item()))
    return real(loss, *args, **named)

torch.Tensor.backward = backward
atexit.register(time.sleep, 0.1)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs an example, and keeps the loss of its last step. It sleeps at its end, as otherwise torch
may abort it: `training.watch.gloo` says why. Under rankboard, the watch does that."""
FORKED = """
import runpy
from functools import partial
import torch._dynamo  # else each worker imports it
import torch.multiprocessing as mp
mp.spawn = partial(mp.start_processes, start_method="fork")
runpy.run_path("{folder}/spawn.py", run_name="__main__")
"""
"""Runs `spawn.py`, but forks its workers, which so have torch: it takes seconds to import.
`tests.hosts.test_agent_watch` has workers of both kinds."""


@pytest.fixture(params=NAMES)
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its name. Its ranks have one thread each, as sums of several are in no certain order.
    Accelerate trains without a GPU as rankboard has it train."""
    name: str = request.param
    if not find_spec(needs := NEEDS.get(name, "torch")):
        pytest.skip(f"{needs} is missing: pip install '.[examples]'")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    return name


def summary_of(example: str, folder: Path) -> dict[str, Any]:
    words = ("--run", "--local", "2", "--", str(EXAMPLES / f"{example}.py"), f"--steps={STEPS}")
    done = run(folder, *words)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("runs/*/summary.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def losses_of_torchrun(example: str, folder: Path) -> list[float]:
    (folder / "torchrun.py").write_text(TORCHRUN)
    words = ["--standalone", "--nproc-per-node=2", "torchrun.py", str(EXAMPLES / f"{example}.py")]
    command = [sys.executable, "-m", "torch.distributed.run", *words, f"--steps={STEPS}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [float((folder / f"loss-{rank}").read_text()) for rank in range(2)]


def check(example: str, summary: dict[str, Any]) -> None:
    """Check that all is seen that there is to see."""
    assert [rank["step"] for rank in summary["ranks"]] == [STEPS, STEPS]
    assert all(math.isfinite(rank["loss"]) for rank in summary["ranks"])
    means = summary["means"]["all_iterations"]
    assert means["seconds"] > 0
    assert 0 < means["sync_share"] < 1
    if example in READ_AS:
        assert summary["read_as"] == [READ_AS[example]]


@slow
def test_it_is_seen(example: str, tmp_path: Path) -> None:
    check(example, summary_of(example, tmp_path))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=slow)])
def test_workers_that_it_starts_itself_are_the_ranks(method: str, tmp_path: Path) -> None:
    program = EXAMPLES / "spawn.py"
    if method == "fork":
        program = tmp_path / "forked.py"
        program.write_text(FORKED.format(folder=EXAMPLES))
    done = run(tmp_path, "--run", "--local", "1", "--", str(program), "--steps=20")
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("runs/*/summary.json")
    summary = json.loads(path.read_text())
    check("spawn", summary)
    first, second = summary["ranks"]
    assert first["loss"] != second["loss"]
    assert (first["process"], second["process"]) == (0, 0)
    assert first["pid"] != second["pid"]


@slow
def test_it_trains_the_same_model_as_under_torchrun(example: str, tmp_path: Path) -> None:
    """To the last bit."""
    summary = summary_of(example, tmp_path)
    assert [rank["loss"] for rank in summary["ranks"]] == losses_of_torchrun(example, tmp_path)
