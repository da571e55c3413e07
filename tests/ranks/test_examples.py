"""The examples, unchanged, with the watch, on ranks that share one import of torch: each step is
seen, with its loss and the split of its time.

`tests.program.test_examples` has them under rankboard.
"""

from __future__ import annotations

import math
import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from torch import distributed

from tests.kit import rank_calls
from tests.kit.forked_ranks import Forker
from tests.kit.rank_reports import read_report
from training.place import Place
from training.watch.hooks import Hooks
from training.watch.report import Program, WatchReport
from training.watch.steps import Steps

EXAMPLES = Path(__file__).absolute().parents[2] / "examples"
STEPS = 20
WORLD = 2
NAMES = ["ddp", "fsdp", "silent", *(["accelerate_loop"] if find_spec("accelerate") else [])]
Result = dict[str, Any]


def run(name: str, place: Place) -> Result:
    """As a rank: run an example, whose ranks meet as those of torchrun do."""
    store = _begin_meeting(place)
    pipe, end = os.pipe()
    channel = f"{end}:{os.getpid()}:{os.fstat(end).st_ino}"
    report = WatchReport(channel, Program(place.rank, place.world_size))
    hooks = Hooks(Steps(report.steps, gather=0), report)
    hooks.look()
    sys.argv = [f"{name}.py", f"--steps={STEPS}"]
    runpy.run_path(str(EXAMPLES / sys.argv[0]), run_name="__main__")
    hooks.end()
    report.close()
    os.close(end)
    del store
    with open(pipe) as file:
        return {"text": file.read()}


def _begin_meeting(place: Place) -> object:
    """Leave the group, and set the environment for the next one, whose store is returned."""
    store = None
    port = [0]
    if place.rank == 0:
        store = distributed.TCPStore(
            "127.0.0.1", 0, place.world_size, is_master=True, wait_for_workers=False
        )
        port = [store.port]
    distributed.broadcast_object_list(port)
    distributed.destroy_process_group()
    os.environ.update(
        ACCELERATE_USE_CPU="true",
        LOCAL_RANK=str(place.local_rank),
        LOCAL_WORLD_SIZE=str(place.world_size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port[0]),
        RANK=str(place.rank),
        TORCHELASTIC_USE_AGENT_STORE="True",  # all join the store, as that is there
        WORLD_SIZE=str(place.world_size),
    )
    return store


def __getattr__(name: str) -> Any:
    """Return what runs an example, as `run_NAME`, for `rank_calls`."""
    example = name.removeprefix("run_")
    if example == name or example not in NAMES:
        raise AttributeError(name)
    return lambda place: run(example, place)


@pytest.mark.parametrize("name", NAMES)
def test_each_step_is_seen(name: str, forked: Forker, tmp_path: Path) -> None:
    """Each example has a world of its own, as in what it sets up no other may begin."""
    call = f"run_{name}"
    results = rank_calls.call(forked, tmp_path, __name__, {WORLD: [call]})[WORLD, call]
    for result in results:
        events = [read_report(line) for line in result["text"].splitlines()]
        steps = [event for event in events if event["event"] == "step"]
        assert [step["step"] for step in steps] == [*range(1, STEPS + 1)]
        assert all(step["loss_known"] and math.isfinite(step["loss"]) for step in steps)
        for step in steps:
            assert 0 < step["sync"] < step["seconds"]
            parts = step["data"] + step["compute"] + step["sync"]
            assert parts == pytest.approx(step["seconds"], abs=1e-5)
