"""Going on from a checkpoint is as if nothing had happened, and no crash leaves less than the
checkpoint before it."""

import json
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from tests.kit.forked_ranks import Forked, Forker
from tests.kit.slow import slow
from tests.kit.training_ranks import alive, kill
from tests.kit.wait import wait
from training import registry
from training.checkpoint.find import CheckpointKey, choose_checkpoint, read_manifest, take_inventory
from training.checkpoint.load import _check
from training.checkpoint.parts import RunPosition
from training.job import Job, JobError
from training.wire.host_events import OutputText
from training.wire.rank_events import Entered, Evaluated, Finished, Saved, Started

JOB = Job(sync="all_reduce", steps=10, batch_size=30, momentum=0.9, weight_decay=1e-4, log_every=4)
CUT = 6
"""The step after which a run is cut off. Its rank's shares are 10 samples, of an epoch of 48
steps."""


def host(forked: Forker, run: str, index: int = 0, host: str = "host") -> Path:
    """Where an agent keeps a run's folder on its host."""
    return forked.folder / host / "runs" / run / str(index)


def losses(run: Forked, after: int = 0) -> list[list[tuple[int, float]]]:
    """Each rank's (step, loss)."""
    return [
        [(step.step, step.loss) for step in run.steps(rank) if step.step > after]
        for rank in range(run.world)
    ]


def joined(run: Forked, after: int = 0) -> list[float]:
    """The losses over the global batches."""
    steps = zip(
        *([s for s in run.steps(rank) if s.step > after] for rank in range(run.world)), strict=True
    )
    return [
        sum(s.loss * s.samples for s in of_ranks) / sum(s.samples for s in of_ranks)
        for of_ranks in steps
    ]


def lines(run: Forked, rank: int = 0) -> list[str]:
    return [
        line
        for event in run.events(rank)
        if isinstance(event, OutputText)
        for line in event.text.split("\n")
    ]


def results(run: Forked, rank: int = 0) -> tuple[float, float, float]:
    found = run.evaluated(rank)[-1]
    return found.loss, found.accuracy, found.own_accuracy


SMALL = "torchvision/mobilenet_v3_small"
"""A model with dropout and BatchNorm."""


def saved_and_resumed(
    forked: Forker, name: str, job: Job, world: int, at: int = CUT, hosts: int = 1
) -> tuple[Forked, Forked]:
    """A run that saves after step `at`; and one that goes on from there, as if the first had been
    cut off after that."""

    def run(which: str, job: Job) -> Forked:
        folders = several(forked, f"{name}-{which}", *(rank % hosts for rank in range(world)))
        return forked.run(f"{name}-{which}", job, folders)

    job = replace(job, checkpoint_every=str(at))
    saved = run("saved", job)
    left(forked, f"{name}-saved", f"{name}-cut", at)
    return saved, run("again", replace(job, resume=f"{name}-cut"))


def left(forked: Forker, run: str, cut: str, *steps: int, hosts: int = 2) -> None:
    """Copies what one run has saved after these steps, as what another run left that was cut off;
    to as many hosts."""
    for index in range(2):
        for step in steps:
            saved = host(forked, run, index, f"host{index}") / "checkpoints" / f"step-{step:06}"
            if saved.exists():
                to = index % hosts
                where = host(forked, cut, to, f"host{to}") / "checkpoints" / saved.name
                shutil.copytree(saved, where, dirs_exist_ok=True)


def several(forked: Forker, run: str, *numbers: int) -> list[Path]:
    """Where a run's folder is on each of these hosts, of which each has its own disk."""
    return [host(forked, run, number, f"host{number}") for number in numbers]


@pytest.fixture(scope="session")
def uninterrupted(forked: Forker) -> Forked:
    """It saves nothing."""
    return forked.run("uninterrupted", JOB, several(forked, "uninterrupted", 0, 0))


@pytest.fixture(scope="session")
def saved(forked: Forker) -> str:
    """The name of a run of a rank on each of two hosts that has saved every second step."""
    job = replace(JOB, checkpoint_every="2", checkpoint_keep=JOB.steps)
    forked.run("saved", job, several(forked, "saved", 0, 1))
    return "saved"


@pytest.fixture(scope="session")
def alone(forked: Forker) -> str:
    """The same, of one rank that has made four steps."""
    forked.run("alone", replace(JOB, steps=4, checkpoint_every="2"), several(forked, "alone", 0))
    return "alone"


EXACT = {
    "all_reduce": 2,
    "gather_scatter": 2,
    "ring": 3,
    "hierarchical": 3,
    "parameter_server": 2,
    "none": 2,
}
"""Sync methods, each with a world that has all of its parts."""
STATELESS = ("gather_scatter", "ring", "hierarchical")
"""Those of which a checkpoint has no more than of `all_reduce`."""


@pytest.mark.parametrize(
    "sync",
    [pytest.param(sync, marks=slow) if sync in STATELESS else sync for sync in EXACT],
)
def test_resumed_is_bit_by_bit_what_would_have_been(
    forked: Forker, sync: str, uninterrupted: Forked
) -> None:
    hosts = 2 if sync == "hierarchical" else 1
    job = replace(JOB, sync=sync)
    whole, resumed = saved_and_resumed(forked, sync, job, EXACT[sync], hosts=hosts)
    assert losses(resumed) == losses(whole, after=CUT), "the same batches, with the same model"
    assert results(resumed) == results(whole)
    assert len(losses(resumed)[0]) == JOB.steps - CUT
    if sync == "all_reduce":
        assert losses(whole) == losses(uninterrupted), "to save changes nothing"
    elif sync != "none":
        assert joined(whole) == pytest.approx(joined(uninterrupted), abs=1e-5)


def test_a_server_that_is_not_rank_0_keeps_its_optimiser(forked: Forker) -> None:
    job = replace(JOB, sync="parameter_server", sync_option=("server=1", "dedicated=yes"))
    whole, resumed = saved_and_resumed(forked, "server", job, world=3)
    assert losses(resumed) == losses(whole, after=CUT)
    assert Entered(1, "serving") in resumed.events(1)


def test_an_asynchronous_server_goes_on(forked: Forker) -> None:
    job = replace(JOB, sync="parameter_server", sync_option=("mode=async",))
    _, resumed = saved_and_resumed(forked, "async", job, world=2)
    assert [len(steps) for steps in losses(resumed)] == [JOB.steps - CUT] * 2
    (where,) = several(forked, "async-cut", 0)
    own = where / "checkpoints" / f"step-{CUT:06}" / "rank1.pt"
    assert own.stat().st_size < 20_000, "a worker has no momentum to keep"


def test_ranks_settle_on_one_model_before_they_evaluate(forked: Forker) -> None:
    job = replace(JOB, sync="local_sgd", sync_option=("every=100",), steps=3, checkpoint_every="3")
    run = forked.run("settled", job, [host(forked, "settled")] * 2)
    alone = replace(job, resume="settled", sync="none", sync_option=(), checkpoint_every="")
    saved = forked.run("settled-again", alone, [host(forked, "settled-again")])
    assert losses(saved) == [[]]
    assert results(saved) == pytest.approx(results(run))


def test_of_ranks_that_never_settle_rank_0s_model_is_tested(forked: Forker) -> None:
    job = replace(
        JOB, sync="none", model=SMALL, batch_size=8, steps=3, limit=60, checkpoint_every="3"
    )
    run = forked.run("apart", job, [host(forked, "apart")] * 2)
    where = host(forked, "apart") / "checkpoints" / "step-000003"
    model, own, first = (
        torch.load(where / name, weights_only=True) for name in ("model.pt", "rank1.pt", "rank0.pt")
    )
    trained = [name for name, value in model["model"].items() if value.is_floating_point()]
    assert not any(torch.equal(model["model"][name], own["model"][name]) for name in trained), (
        "statistics, too, are its own"
    )
    assert not torch.equal(own["random"], first["random"]), (
        "what ranks draw differs, such as dropout"
    )

    (_, accuracy, first_own), (_, again, second_own) = results(run), results(run, 1)
    assert accuracy == again == first_own
    alone = replace(job, resume="apart", checkpoint_every="")
    assert results(forked.run("apart-0", alone, [host(forked, "apart-0")]))[:2] == pytest.approx(
        results(run)[:2]
    )
    torch.save(model | {"model": own["model"]}, where / "model.pt")
    manifest = json.loads((where / "manifest.json").read_text())
    manifest["files"]["model.pt"] = (where / "model.pt").stat().st_size
    (where / "manifest.json").write_text(json.dumps(manifest))
    assert results(forked.run("apart-1", alone, [host(forked, "apart-1")]))[1] == second_own


def test_the_saved_model_has_the_statistics_of_a_rank_that_trains(forked: Forker) -> None:
    job = replace(
        JOB,
        sync="parameter_server",
        sync_option=("dedicated=yes",),
        model=SMALL,
        batch_norm="local",
    )
    forked.run(
        "trained",
        replace(job, batch_size=4, steps=1, limit=16, checkpoint_every="1"),
        [host(forked, "trained")] * 3,
    )
    where = host(forked, "trained") / "checkpoints" / "step-000001"
    model, own = (
        torch.load(where / name, weights_only=True)["model"] for name in ("model.pt", "rank1.pt")
    )
    assert all(torch.equal(model[name], statistics) for name, statistics in own.items())
    assert all(statistics.any() for statistics in own.values())


def test_ddp_goes_on_to_rounding(forked: Forker) -> None:
    whole, resumed = saved_and_resumed(
        forked, "ddp", replace(JOB, sync="ddp", steps=20), world=2, at=7
    )
    for own, others in zip(losses(resumed), losses(whole, after=7), strict=True):
        assert own == [(step, pytest.approx(loss, abs=1e-5)) for step, loss in others]


APPROXIMATE = {"ddp": ("compression=powersgd", "rank=1"), "local_sgd": ("every=4",)}


@pytest.mark.parametrize("sync", sorted(APPROXIMATE.keys() & set(registry.list_names("sync"))))
def test_an_approximate_method_goes_on_as_a_run_that_saved_at_the_same_steps(
    forked: Forker, sync: str
) -> None:
    job = replace(JOB, sync=sync, sync_option=APPROXIMATE[sync])
    saved, resumed = saved_and_resumed(forked, f"{sync}-approximate", job, world=2)
    assert losses(resumed) == [
        [(step, pytest.approx(loss, abs=1e-6)) for step, loss in own]
        for own in losses(saved, after=CUT)
    ]


def test_dropout_own_statistics_and_grouped_batches_go_on(forked: Forker) -> None:
    job = replace(JOB, model=SMALL, batch_norm="local", accumulate=2, batch_size=8)
    job = replace(job, steps=3, limit=32)
    whole, resumed = saved_and_resumed(forked, "own", job, world=2, at=2)
    assert [len(steps) for steps in losses(resumed)] == [1, 1]
    assert losses(resumed) == losses(whole, after=2)
    assert [results(resumed, rank) for rank in range(2)] == [
        results(whole, rank) for rank in range(2)
    ]
    ends = [
        host(forked, f"own-{run}", 0, "host0") / "checkpoints" / "step-000003" / "rank1.pt"
        for run in ("saved", "again")
    ]
    statistics = [torch.load(end, weights_only=True)["model"] for end in ends]
    assert statistics[0].keys() == statistics[1].keys() != set()
    assert all(torch.equal(statistics[0][name], statistics[1][name]) for name in statistics[0])
    assert "Resuming from the checkpoint of step 2 of own-cut" in lines(resumed)
    assert not any("left out" in line for line in lines(resumed))


def test_checkpoints_are_said_and_the_last_are_kept_on_every_host(forked: Forker) -> None:
    folders = [host(forked, "kept", index, f"host{index}") for index in range(2)]
    job = replace(JOB, checkpoint_every="3", checkpoint_keep=2)
    run = forked.run("kept", job, folders)
    files = [
        {str(path.relative_to(folder / "checkpoints")) for path in folder.rglob("*.*")}
        for folder in folders
    ]
    assert files[0] == {
        f"step-0000{step}/{name}"
        for step in ("09", "10")
        for name in ("manifest.json", "model.pt", "rank0.pt")
    }
    assert files[1] == {f"step-0000{step}/rank1.pt" for step in ("09", "10")}
    for path in (folder / "checkpoints" for folder in folders):
        assert all(not one.stat().st_mode & 0o077 for one in (path, *path.rglob("*")))

    for rank, folder in enumerate(folders):
        saved = [event for event in run.events(rank) if isinstance(event, Saved)]
        assert [(event.rank, event.epoch, event.step) for event in saved] == [
            (rank, 1, step) for step in (3, 6, 9, 10)
        ]
        there = sum(
            path.stat().st_size for path in (folder / "checkpoints" / "step-000010").glob("*.pt")
        )
        assert saved[-1].size == there
        assert all(event.seconds > 0 for event in saved)
        phases = [event.phase for event in run.events(rank) if isinstance(event, Entered)]
        assert phases[3:] == [*["saving", "training"] * 3, "evaluating", "saving"]
        seconds = [step.seconds for step in run.steps(rank)]
        assert max(seconds) < run.events(rank)[-1].seconds - sum(event.seconds for event in saved)  # type: ignore[attr-defined]

    model = torch.load(folders[0] / "checkpoints" / "step-000010" / "model.pt", weights_only=True)
    assert (model["step"], model["epochs"], model["samples"], model["job"]["sync"]) == (
        10,
        0,
        300,
        "all_reduce",
    )


def test_every_epoch_after_its_evaluation(forked: Forker) -> None:
    job = replace(JOB, steps=6, batch_size=5, limit=10, checkpoint_every="epoch")
    run = forked.run("epoch", job, [host(forked, "epoch")])
    order = [event.step for event in run.events(0) if isinstance(event, (Evaluated, Saved))]
    assert order == [2, 2, 4, 4, 6, 6]
    again = forked.run("epoch-again", replace(job, resume="epoch"), [host(forked, "epoch-again")])
    assert losses(again) == [[]], "a checkpoint of the last step leaves nothing to do"
    assert results(again) == results(run)
    assert "Already complete (6 steps). Raise --epochs or --steps to continue" in lines(again)
    finished = again.events(0)[-1]
    assert isinstance(finished, Finished)
    assert finished.step == 6


@pytest.mark.parametrize("blocked", ["rank1.pt", "manifest.json"])
def test_killed_between_two_files_the_checkpoint_before_counts(
    forked: Forker, blocked: str, uninterrupted: Forked, saved: str
) -> None:
    (folder,) = several(forked, f"killed-{blocked}", 0)
    newest = folder / "checkpoints" / "step-000008"
    left(forked, saved, f"killed-{blocked}", 4, hosts=1)
    newest.mkdir(parents=True)
    os.mkfifo(newest / f"{blocked}.part")  # who opens it to write waits for a reader
    again = replace(
        JOB, resume=f"killed-{blocked}", checkpoint_every="4"
    )  # as a restart of the run: in the same folder
    run = forked.start(f"killed-{blocked}", again, [folder, folder])
    others = {"rank0.pt", "rank1.pt", "model.pt"} - {blocked}
    wait(lambda: others <= {path.name for path in newest.iterdir()}, "the other files")
    for pid in run.known:
        kill(pid)
    assert run.wait() == dict.fromkeys(range(2), -signal.SIGKILL)
    assert not (newest / "manifest.json").exists()
    (newest / f"{blocked}.part").unlink()
    resumed = forked.run(f"again-{blocked}", again, [folder, folder])
    assert losses(resumed) == losses(uninterrupted, after=4)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "step-000004",
        "step-000008",
        "step-000010",
    ]


def test_files_of_two_attempts_are_not_mixed(
    forked: Forker, uninterrupted: Forked, saved: str
) -> None:
    (folder,) = several(forked, "mixed", 0)
    left(forked, saved, "mixed", 4, 8, hosts=1)
    newest, older = (folder / "checkpoints" / f"step-{step:06}" for step in (8, 4))
    (newest / "rank1.pt").write_bytes((older / "rank1.pt").read_bytes())  # of another step
    again = several(forked, "mixed-again", 0, 0)
    resumed = forked.run("mixed-again", replace(JOB, resume="mixed"), again)
    assert losses(resumed) == losses(uninterrupted, after=4)


def test_a_full_disk_is_told_and_the_checkpoint_before_it_stays(forked: Forker, saved: str) -> None:
    (folder,) = several(forked, "full", 0)
    where = folder / "checkpoints" / "step-000008"
    left(forked, saved, "full", 4, hosts=1)
    where.mkdir(parents=True)
    (where / "rank1.pt.part").symlink_to("/dev/full")
    run = forked.start("full", replace(JOB, resume="full", checkpoint_every="4"), [folder, folder])
    assert run.wait()[1] == 1
    assert "Traceback" not in run.err(1)
    assert (
        f"cannot save the checkpoint of step 8 in {folder / 'checkpoints'}: No space left on device"
        in run.err(1)
    )
    assert (where.parent / "step-000004" / "manifest.json").exists()
    assert not list(where.glob("rank1*"))
    assert not (where / "manifest.json").exists()


def test_fewer_ranks_go_on_with_the_same_batches(
    forked: Forker, uninterrupted: Forked, saved: str
) -> None:
    left(forked, saved, "two", CUT)
    job = replace(JOB, resume="two", sync="none")
    one = forked.run("one", job, several(forked, "one", 0))
    assert joined(one) == pytest.approx(joined(uninterrupted, after=CUT), abs=1e-5)
    said = lines(one)
    assert (
        "The ranks' own states (random numbers, sync method, local statistics) are left out: it "
        "is of 2 ranks, these are 1" in said
    )
    assert "Settings that differ from the checkpoint's: --sync none (was all_reduce)" in said


def test_the_model_may_lie_on_any_host(forked: Forker, uninterrupted: Forked, saved: str) -> None:
    left(forked, saved, "moved", CUT)
    hosts = [host(forked, "moved-again", index, f"host{1 - index}") for index in range(2)]
    resumed = forked.run("moved-again", replace(JOB, resume="moved"), hosts)
    assert losses(resumed) == losses(uninterrupted, after=CUT), (
        "without dropout there is nothing of their own to miss"
    )
    assert any(
        "left out: rank 0, 1 cannot find its own on its host" in line for line in lines(resumed)
    )


def test_ranks_go_on_without_the_first_host_where_each_keeps_copies(
    forked: Forker, uninterrupted: Forked
) -> None:
    folders = several(forked, "copies", 0, 1, 1)
    job = replace(JOB, steps=CUT, checkpoint_every="3", checkpoint_keep=1)
    run = forked.run("copies", job, folders, copies=True)
    where = [folder / "checkpoints" / f"step-{CUT:06}" for folder in folders]
    of_both = {"manifest.json", "model.pt"}
    assert [set(os.listdir(one)) for one in where[:2]] == [
        {*of_both, "rank0.pt"},
        {*of_both, "rank1.pt", "rank2.pt"},
    ]
    assert [os.listdir(folder / "checkpoints") for folder in folders[:2]] == [
        [f"step-{CUT:06}"]
    ] * 2, "pruned on each"
    manifest = json.loads((where[1] / "manifest.json").read_bytes())
    assert manifest["files"]["model.pt"] == (where[1] / "model.pt").stat().st_size
    assert manifest["files"].keys() == {"model.pt", "rank0.pt", "rank1.pt", "rank2.pt"}
    sizes = [
        [event.size for event in run.events(rank) if isinstance(event, Saved)][-1]
        for rank in range(3)
    ]
    own = [(where[rank] / f"rank{rank}.pt").stat().st_size for rank in range(3)]
    assert [size > 2 * file for size, file in zip(sizes, own, strict=True)] == [
        True,
        True,
        False,
    ], "of the first on a host"

    left = several(forked, "copies-again", 1, 1)
    resumed = forked.run("copies-again", replace(JOB, resume="copies"), left)
    assert joined(resumed) == pytest.approx(joined(uninterrupted, after=CUT), abs=1e-5)
    assert any("left out: it is of 3 ranks, these are 2" in line for line in lines(resumed))


def test_each_host_has_a_copy_that_counts_at_every_moment(
    forked: Forker, uninterrupted: Forked
) -> None:
    """Also where only the newest is kept, and the others' newest was complete when their host was
    lost."""
    folders = several(forked, "moment", 0, 1)
    job = replace(JOB, checkpoint_every="4", checkpoint_keep=1)
    forked.run("moment-first", replace(job, steps=4), folders, copies=True)
    newest = [folder / "checkpoints" / "step-000008" for folder in folders]
    newest[1].mkdir(parents=True)
    os.mkfifo(newest[1] / "manifest.json.part")
    run = forked.start("moment", replace(job, resume="moment"), folders, copies=True)
    wait(lambda: (newest[0] / "manifest.json").exists(), "the first host's copy")
    wait(lambda: (newest[1] / "model.pt").exists(), "the second host's model")
    for pid in run.known:
        kill(pid)
    run.wait()
    (newest[1] / "manifest.json.part").unlink()
    resumed = forked.run(
        "moment-again",
        replace(JOB, resume="moment", sync="none"),
        several(forked, "moment-again", 1),
    )
    assert joined(resumed) == pytest.approx(joined(uninterrupted, after=4), abs=1e-5)


def test_of_several_copies_that_of_the_parameter_server_counts(forked: Forker) -> None:
    """What the workers hold is the model; the momentum is the server's."""
    job = replace(JOB, sync="parameter_server")
    whole = forked.run("momentum-whole", job, several(forked, "momentum-whole", 0, 1, 2))
    saved = several(forked, "momentum", 0, 1, 2)
    forked.run("momentum", replace(job, steps=CUT, checkpoint_every=str(CUT)), saved, copies=True)
    for order in (saved, saved[::-1]):  # as where hosts are one machine
        (copy,) = take_inventory([folder / "checkpoints" for folder in order], 1).models.values()
        assert copy == (0, saved[0] / "checkpoints" / f"step-{CUT:06}" / "model.pt")

    again = replace(job, resume="momentum")
    moved = forked.run("momentum-moved", again, several(forked, "momentum-moved", 2, 1, 0))
    assert losses(moved) == losses(whole, after=CUT)
    assert not any("momentum" in line for line in lines(moved) if "left out" in line)

    left = forked.run("momentum-left", again, several(forked, "momentum-left", 1, 2))
    assert joined(left)[0] == pytest.approx(joined(whole, after=CUT)[0], abs=1e-5), "the same model"
    assert joined(left)[2] != pytest.approx(joined(whole, after=CUT)[2], abs=1e-5), (
        "and another way on"
    )
    assert any("left out: it is of 3 ranks, these are 2" in line for line in lines(left))


def test_without_an_agent_they_lie_where_the_ranks_work(forked: Forker) -> None:
    job = replace(JOB, steps=4, checkpoint_every="2")
    forked.run("plain", job, [None])
    refused = forked.run("plain-anew", job, [None], codes=[2])
    there = forked.folder / "checkpoints"
    assert f"--checkpoint-every 2: {there} holds another run's checkpoint of step 4" in refused.err(
        0
    )
    assert "resume it with --resume checkpoints" in refused.err(0)
    resumed = forked.run("plain-again", replace(job, steps=6, resume="checkpoints"), [None])
    assert [step for step, _ in losses(resumed)[0]] == [5, 6]
    assert sorted(path.name for path in there.iterdir()) == [
        f"step-00000{step}" for step in (2, 4, 6)
    ]
    started = next(event for event in resumed.events(0) if isinstance(event, Started))
    assert (started.resumed, started.steps) == (4, 6)

    elsewhere = forked.folder / "elsewhere"
    there.rename(elsewhere)
    forked.run("plain-other", job, [None])
    refused = forked.run(
        "plain-from", replace(job, steps=8, resume=str(elsewhere)), [None], codes=[2]
    )
    assert "holds another run's checkpoint of step 4" in refused.err(0), "it would remove that"
    assert sorted(path.name for path in there.iterdir()) == ["step-000002", "step-000004"]
    shutil.rmtree(there)


def test_a_checkpoint_that_is_not_as_it_was_saved_is_left_out(forked: Forker, alone: str) -> None:
    (folder,) = several(forked, "cut-off", 0)
    left(forked, alone, "cut-off", 2, 4)
    older, newer = (folder / "checkpoints" / f"step-00000{step}" / "model.pt" for step in (2, 4))
    newer.write_bytes(newer.read_bytes()[:-100])
    run = forked.run(
        "cut-off-again",
        replace(JOB, steps=5, resume="cut-off"),
        several(forked, "cut-off-again", 0),
    )
    assert [step for step, _ in losses(run)[0]] == [3, 4, 5]
    assert f"Left out, as it is missing or damaged: {newer}" in lines(run)
    older.write_bytes(b"")
    refused = forked.run(
        "cut-off-more",
        replace(JOB, resume="cut-off"),
        several(forked, "cut-off-more", 0),
        codes=[2],
    )
    assert f"the model is missing or damaged: {older}, {newer}: restore it" in refused.err(0)


def test_the_same_images_may_lie_elsewhere_and_statistics_come_from_where_there_are_any() -> None:
    job = replace(JOB, dataset="imagefolder:/data/flowers")

    def check(net: nn.Module, classes: Sequence[str] = ("rose", "tulip"), **was: str) -> None:
        parts = Mock(net=net, classes=("rose", "tulip"))
        _check(job, parts, {"job": asdict(replace(job, **was)), "classes": list(classes)}, "it")

    plain, normalised = nn.Linear(2, 2), nn.Sequential(nn.BatchNorm2d(2))
    check(normalised, dataset="imagefolder:/scratch/flowers", batch_norm="local")
    check(plain, batch_norm="untracked")
    with pytest.raises(
        JobError, match=r"^--dataset imagefolder:/data/flowers: it is of --dataset cifar10"
    ):
        check(plain, dataset="cifar10")
    check(
        plain, (), dataset="imagefolder:/scratch/flowers"
    )  # one that was saved before classes were
    with pytest.raises(
        JobError,
        match=r"/flowers: its classes are not those of it \(daisy, tulip\): give the same images",
    ):
        check(plain, ("daisy", "rose"))
    with pytest.raises(
        JobError, match=r"^--batch-norm broadcast: it is of --batch-norm untracked; give that"
    ):
        check(normalised, batch_norm="untracked")
    with pytest.raises(
        JobError, match=r"^--batch-norm broadcast: it is of --batch-norm untracked; give that"
    ):
        check(nn.Sequential(nn.SyncBatchNorm(2)), batch_norm="untracked")


def test_other_batches_go_on_at_the_nearest_sample_before(forked: Forker, alone: str) -> None:
    left(forked, alone, "batches", 2)
    again = replace(JOB, resume="batches", batch_size=40, steps=3, lr=0.05)
    run = forked.run("batches-again", again, several(forked, "batches-again", 0))
    assert [step for step, _ in losses(run)[0]] == [2, 3]
    assert "With these settings the checkpoint's step 2 is step 1" in lines(run)
    assert (
        "Settings that differ from the checkpoint's: --batch-size 40 (was 30), --lr 0.05 (was 0.1)"
        in lines(run)
    )


def test_what_cannot_be_resumed_is_told(forked: Forker, alone: str) -> None:
    there = host(forked, "there", 0, "errors")
    before = several(forked, alone, 0)[0] / "checkpoints" / "step-000002"
    shutil.copytree(before, there / "checkpoints" / before.name)

    def error(name: str, job: Job) -> str:
        return forked.run(name, job, [host(forked, name, 0, "errors")], codes=[2]).err(0).strip()

    runs = there.parent.parent
    assert error("unknown", replace(JOB, resume="nowhere")) == (
        f"python -m training: error: --resume nowhere: no complete checkpoint in {runs / 'nowhere'}"
        ": use the hosts it ran on, resume a run that was started with "
        "--checkpoint-every, or give a path"
    )
    nowhere = runs.parent / "nowhere"
    assert error("no-path", replace(JOB, resume=str(nowhere))) == (
        f"python -m training: error: --resume {nowhere}: no complete checkpoint in {nowhere}: "
        "use the hosts it ran on, resume a run that was started with --checkpoint-every, or "
        "give a path"
    )
    one = there / "checkpoints" / "step-000002"
    assert error("one-of-them", replace(JOB, resume=str(one))) == (
        f"python -m training: error: --resume {one}: this is one checkpoint: give the folder "
        f"above it, {one.parent}"
    )
    assert error("other", replace(JOB, resume="there", model="vgg11")) == (
        "python -m training: error: --model vgg11: the checkpoint of step 2 of there is of "
        "--model lenet5; "
        "give that, or start without --resume"
    )
    (there / "checkpoints" / "step-000002" / "manifest.json").unlink()
    assert error("torn", replace(JOB, resume="there")) == (
        f"python -m training: error: --resume there: no complete checkpoint in {there.parent}: "
        "use the hosts it ran on, resume a run that was started with --checkpoint-every, or "
        "give a path"
    )


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"files": 7}', "[]", '{"step": 1e999}', "x" * (2 << 20)], ids=len
)
def test_a_manifest_that_is_none_makes_no_checkpoint_complete(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    assert read_manifest(tmp_path / "manifest.json") is None


def test_the_newest_checkpoint_that_counts() -> None:
    old, new, two = CheckpointKey(4, "a", 3), CheckpointKey(8, "a", 3), CheckpointKey(9, "b", 2)
    everywhere = [{old, new}] * 3
    assert choose_checkpoint([{old, new}, set(), set()], everywhere) == new
    assert choose_checkpoint([set(), {old, new}, set()], everywhere) == new
    assert choose_checkpoint([{old, new}, set(), set()], [{old, new}, {old}, {old, new}]) == old, (
        "one rank's file is missing"
    )
    assert choose_checkpoint([{old}, set(), set()], everywhere) == old, "no manifest"
    assert choose_checkpoint([{old, new, two}, set(), set()], everywhere) == two, (
        "of another world size: no own files are needed"
    )
    assert choose_checkpoint([{new}, set(), set()], [set()] * 3) == new, "better than nothing"
    after = {CheckpointKey(10, "c", 3), two, old}
    assert choose_checkpoint([after] * 3, [{old}, set(), {old}]) == CheckpointKey(10, "c", 3), (
        "no own files are to be had from an older world, too"
    )
    assert choose_checkpoint([set()] * 3, everywhere) is None


def test_a_position_holds_for_other_batches_and_epochs() -> None:
    job = replace(JOB, batch_size=10, accumulate=2)
    position = RunPosition.at(25, job, 10)
    assert position == RunPosition(25, 2, 100)
    assert position.steps(job, 10) == 25
    assert position.steps(job, 9) == 23, "an epoch has a step less"
    assert position.steps(replace(job, batch_size=30), 4) == 2 * 4 + 1, (
        "samples are rather taken again than left out"
    )
    assert position.steps(job, 4) == 12, "not beyond the epoch's end"


def test_nobody_is_left(forked: Forker) -> None:
    assert not any(alive(pid) for run in forked.runs for pid in run.known)
