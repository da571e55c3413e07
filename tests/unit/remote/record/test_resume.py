"""Which run `--resume` means, with which job, and what a run tells of its checkpoints."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, PlanError, Script, Upload
from remote.record import resume, summary
from remote.record.events_file import read_records as read
from remote.record.layout import NODE
from remote.record.remarks import find_remarks
from remote.record.write import Recorder
from tests.kit.histories import History, plan, stepped
from tests.kit.launches import QUICK, launch, run
from tests.kit.slow import slow
from tests.kit.sshd import Sshd
from training.job import Job, JobError
from training.wire.events import split_steps
from training.wire.host_events import Launched, Spawned
from training.wire.rank_events import Saved, Started, StepFinished

OLD = Job(
    sync="ring",
    sync_option=("segment_kb=64",),
    model="vgg11",
    dataset="cifar10",
    epochs=3,
    lr=0.05,
    checkpoint_every="10",
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def record(
    runs: Path, name: str, work: Job | Script = OLD, local: bool = True, complete: bool = True
) -> Path:
    """A recorded run, perhaps with a checkpoint: what a launcher finds of it."""
    Recorder(runs, Plan(name, (Host("local", "127.0.0.1"),), work))
    if local:
        where = runs / name / NODE / "runs" / name / "0" / "checkpoints" / "step-000010"
        where.mkdir(parents=True)
        if complete:
            (where / "manifest.json").touch()
    return runs / name


def test_what_is_left_out_is_as_in_the_run(runs: Path) -> None:
    folder = record(runs, "old")
    assert resume.job_of({"resume": "old", "lr": None}, runs, is_local=True) == replace(
        OLD, resume="old"
    )
    assert resume.job_of({"resume": str(folder), "lr": 0.01}, runs, is_local=True) == replace(
        OLD, resume=str(folder), lr=0.01
    )
    assert resume.job_of({"resume": "old", "steps": 500}, runs, is_local=True) == replace(
        OLD, resume="old", steps=500, epochs=None
    )
    other = resume.job_of({"resume": "old", "sync": "all_reduce"}, runs, is_local=True)
    assert (other.sync, other.sync_option, other.model) == ("all_reduce", (), "vgg11")
    assert resume.job_of({"resume": "elsewhere", "lr": 0.01}, runs, is_local=True) == Job(
        resume="elsewhere", lr=0.01
    )
    assert resume.job_of({"resume": None, "lr": 0.01}, runs, is_local=True) == Job(lr=0.01)
    with pytest.raises(JobError, match="--epochs and --steps"):
        resume.job_of({"resume": "old", "steps": 500, "epochs": 1}, runs, is_local=True)


def test_ranks_of_this_machine_are_told_where_it_is(runs: Path) -> None:
    folder = record(runs, "old")
    job = replace(OLD, resume="old")
    there = str(runs / "old" / NODE / "runs" / "old")
    assert resume.located(job, runs, is_local=True).resume == there
    assert resume.located(replace(job, resume=str(folder)), runs, is_local=True).resume == there
    assert resume.located(replace(job, resume=there), runs, is_local=True).resume == there
    assert resume.located(OLD, runs, is_local=True) == OLD


def test_ranks_of_other_machines_are_told_its_name(runs: Path) -> None:
    folder = record(runs, "old", local=False)
    for given in ("old", str(folder)):
        assert resume.located(replace(OLD, resume=given), runs, is_local=False).resume == "old"
    for unknown in ("of-another-laptop", "~/checkpoints", "/scratch/run/checkpoints"):
        assert resume.located(replace(OLD, resume=unknown), runs, is_local=False).resume == unknown


ERRORS = [
    (
        "odl",
        {},
        "--resume odl: no run of this name in {runs}: did you mean 'old'?",
    ),
    (
        "old",
        {"model": "lenet5"},
        "--model lenet5: old, which --resume goes on from, has vgg11: leave --model out, or "
        "--resume",
    ),
    (
        "old",
        {"dataset": "svhn"},
        "--dataset svhn: old, which --resume goes on from, has cifar10: leave --dataset out, or "
        "--resume",
    ),
    (
        "remote",
        {},
        "--resume remote: the checkpoints of remote are on the hosts of its hosts file: leave out "
        "--local",
    ),
    (
        "mine",
        {},
        "--resume mine: mine ran a program of yours, whose checkpoints rankboard does not know",
    ),
    (
        "unsaved",
        {},
        "--resume unsaved: The run saved no checkpoint. Start it with --checkpoint-every.",
    ),
    ("torn", {}, "--resume torn: torn ended before a checkpoint was complete"),
]


@pytest.mark.parametrize(("name", "more", "told"), ERRORS)
def test_what_cannot_be_is_told(runs: Path, name: str, more: dict[str, str], told: str) -> None:
    record(runs, "old")
    record(runs, "remote", local=False)
    record(runs, "mine", Script(("train.py",)))
    record(runs, "unsaved", replace(OLD, checkpoint_every=""), complete=False)
    record(runs, "torn", complete=False)
    with pytest.raises(PlanError) as error:
        resume.located(replace(OLD, resume=name, **more), runs, is_local=True)
    assert str(error.value) == told.format(runs=runs)


def test_images_of_ones_own_may_have_moved(runs: Path) -> None:
    record(runs, "flowers", replace(OLD, dataset="imagefolder:/data/flowers"))
    moved = replace(OLD, dataset="imagefolder:/scratch/flowers", resume="flowers")
    assert resume.located(moved, runs, is_local=True).dataset == moved.dataset
    with pytest.raises(
        PlanError, match=r"^--dataset cifar10: flowers, which .* has imagefolder:/data/flowers"
    ):
        resume.located(replace(OLD, resume="flowers"), runs, is_local=True)
    upload = Upload(str(Path.cwd() / "code"), "code")
    was = replace(OLD, dataset="imagefolder:/data/flowers")
    Recorder(
        runs, Plan("with-code", (Host("local", "127.0.0.1"),), was, uploads=(upload,), project="p")
    )
    assert (
        resume.located(replace(moved, resume="with-code"), runs, is_local=False).resume
        == "with-code"
    )


def test_fetched_checkpoints_are_for_ranks_of_this_machine(runs: Path) -> None:
    folder = record(runs, "old", local=False)
    where = folder / resume.FETCHED / "node1" / "checkpoints" / "step-000010"
    where.mkdir(parents=True)
    (where / "manifest.json").touch()
    assert resume.located(replace(OLD, resume="old"), runs, is_local=True).resume == str(
        folder / resume.FETCHED
    )
    assert resume.located(replace(OLD, resume="old"), runs, is_local=False).resume == "old"


def test_checkpoints_of_this_machine_are_not_on_hosts(runs: Path) -> None:
    record(runs, "old")
    with pytest.raises(
        PlanError, match="--resume old: the checkpoints of old are on this machine: add --local"
    ):
        resume.located(replace(OLD, resume="old"), runs, is_local=False)


def test_where_its_checkpoints_are_is_known_before_the_hosts_file_is_read(runs: Path) -> None:
    record(runs, "old")
    with pytest.raises(
        PlanError, match=r"--resume old: the checkpoints of old are on this machine: add --local 1$"
    ):
        resume.job_of({"resume": "old"}, runs, is_local=False)


def test_the_last_run_is_none_where_none_is_recorded(runs: Path) -> None:
    with pytest.raises(
        PlanError, match=r"--resume last: no run on hosts that is recorded in .* saved a checkpoint"
    ):
        resume.located(replace(OLD, resume="last"), runs, is_local=False)


def test_a_plan_that_cannot_be_read_is_told(runs: Path) -> None:
    (record(runs, "old") / "plan.json").write_text("{")
    with pytest.raises(PlanError, match=r"--resume: .*plan\.json is not a plan"):
        resume.job_of({"resume": "old"}, runs, is_local=True)


def test_checkpoints_are_summed_up_with_the_slowest_ranks_time() -> None:
    history = History(plan(2)).training(12)
    history.rank(0, Saved(0, 1, 5, 0.5, 2_000_000), Saved(0, 1, 10, 0.25, 3_000_000))
    history.rank(1, Saved(1, 1, 5, 0.5, 500_000), Saved(1, 1, 10, 0.5, 500_000))
    state = history.done(0, 1).closed()
    ranks = summary.summarize(state)["ranks"]
    keys = ("checkpoints", "checkpoint_step", "checkpoint_bytes", "checkpoint_seconds", "resumed")
    assert [[rank[key] for key in keys] for rank in ranks] == [
        [2, 10, 3_000_000, 0.75, 0],
        [2, 10, 500_000, 1.0, 0],
    ]
    [remark] = find_remarks(state)
    assert not remark.is_warning
    assert (
        remark.text
        == f"2 checkpoints of 3.3 MiB took 1.00 s of the run's {state.elapsed:.2f} s; the newest "
        "is of step 10"
    )


def test_a_run_without_checkpoints_says_nothing_of_them() -> None:
    state = History(plan(2)).training(12).done(0, 1).closed()
    assert find_remarks(state) == []
    assert summary.summarize(state)["ranks"][0]["checkpoint_step"] is None


def test_an_epoch_whose_first_steps_were_another_runs_is_no_epochs_duration() -> None:
    for resumed, epochs in ((14, 1), (10, 2), (0, 2)):
        history = History(plan(1)).rank(0, Launched((0,)), Spawned(0, 100))
        history.rank(
            0, Started(0, 100, 1, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100, resumed)
        )
        first = resumed or 10
        state = history.rank(0, *(stepped(0, step) for step in range(first + 1, 31))).state()
        assert len(state.ranks[0].epoch_seconds) == epochs


def said(output: str, name: str) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, output.splitlines()) if event["event"] == name]


def test_over_ssh_a_killed_run_goes_on_from_its_checkpoints(sshd: Sshd, tmp_path: Path) -> None:
    where = ("--hosts", str(sshd.hosts_toml(sshd.make_hosts(1, slots=2))))
    job = (*where, *QUICK, "--sync", "all_reduce", "--momentum", "0.9")
    killed = launch(tmp_path, *job, "--steps", "100000", "--checkpoint-every", "20")
    pid = killed.events("spawned", 2)[1]["pid"]
    killed.events("saved", 2)  # of both ranks: the first checkpoint is complete
    killed.events("step", 40)
    os.kill(pid, signal.SIGKILL)
    assert killed.end() == 1
    (old,) = (tmp_path / "runs").glob("[!.]*")

    last = killed.summary()["ranks"][0]["step"]
    resumed = run(
        tmp_path, "--run", "--json", *where, "--resume", old.name, "--steps", str(last + 3)
    )
    assert resumed.returncode == 0, resumed.stderr
    steps = [
        (event["rank"], event["step"], event["loss"]) for event in said(resumed.stdout, "step")
    ]
    first = min(step for _, step, _ in steps)
    assert first > 20
    assert first % 20 == 1
    assert f"Resuming from the checkpoint of step {first - 1} of {old.name}" in resumed.stdout
    before = {
        (r.event.rank, r.event.step): r.event.loss
        for one in read(old)
        for r in split_steps(one)
        if isinstance(r.event, StepFinished)
    }
    assert all(loss == before.get((rank, step), loss) for rank, step, loss in steps), (
        "as the killed run had it"
    )
    assert {step for rank, step, _ in steps if (rank, step) in before} >= set(range(first, last))

    unknown = run(tmp_path, "--run", *where, *QUICK, "--resume", "of-another-laptop")
    assert unknown.returncode == 2
    assert "--resume of-another-laptop: no complete checkpoint of it is there" in unknown.stderr
    assert re.search(rf"the newest there that have some are .*{old.name}", unknown.stderr)
    assert "training.agent" not in unknown.stdout, "no rank was started"


@slow
def test_over_ssh_a_run_goes_on_without_the_host_of_its_first_rank(
    sshd: Sshd, tmp_path: Path
) -> None:
    job = (*QUICK, "--sync", "all_reduce", "--steps", "200", "--checkpoint-every", "20")
    policy = ("--max-restarts", "1", "--min-hosts", "3")
    begun = launch(tmp_path, "--hosts", str(sshd.hosts_toml(sshd.make_hosts(4))), *job, *policy)
    agents = {event["host"]: event["pid"] for event in begun.events("hello", 4)}
    ranks = {event["rank"]: event["pid"] for event in begun.events("spawned", 4)}
    begun.events("saved", 2 * 4)  # of step 40
    for pid in (
        agents["node1"],
        ranks[0],
    ):  # in this order: nobody is left to tell of the rank's end
        os.kill(pid, signal.SIGKILL)
    assert begun.end(120) == 0, begun.stderr()
    summary = begun.summary()
    assert [(rank["host"], rank["step"]) for rank in summary["ranks"]] == [
        (f"node{host}", 200) for host in (2, 3, 4)
    ]
    (again,) = summary["restarts"]
    assert again["step"] >= 40
    assert again["step"] % 20 == 0
    assert len(summary["evaluations"]) == len({found["epoch"] for found in summary["evaluations"]})
    (folder,) = (tmp_path / "runs").glob("[!.]*")
    assert {path.parent.name for path in folder.glob("hosts/node2/checkpoints/*/model.pt")} >= {
        "step-000200"
    }


# What is known before anything starts -------------------------------------------------------------


def ended(
    runs: Path,
    name: str,
    checkpoint_step: int | None,
    verdict: str = "failed",
    work: Job = OLD,
    **more: Any,
) -> Path:
    """A run over SSH whose launcher has seen its end."""
    folder = record(runs, name, work, local=False)
    found = {"verdict": verdict, "ranks": [{"checkpoint_step": checkpoint_step}], **more}
    (folder / "summary.json").write_text(json.dumps(found))
    overview = {"verdict": verdict, "checkpoint_step": checkpoint_step or 0}
    (folder / "overview.json").write_text(json.dumps(overview))
    return folder


def located(runs: Path, **settings: Any) -> Job:
    return resume.located(replace(OLD, **settings), runs, is_local=False, rank_count=1)


def test_the_last_run_is_the_newest_with_a_checkpoint(runs: Path) -> None:
    ended(runs, "1-saved", 20)
    ended(runs, "2-saved", 10)
    ended(runs, "3-unsaved", None)
    ended(runs, "4-refused", None, "refused")
    record(runs, "5-local")
    record(runs, "6-left", local=False)  # of which the hosts know more
    (runs / "6-left" / "plan.json").rename(runs / "6-left" / "no-plan.json")
    assert located(runs, resume="last").resume == "2-saved"
    assert resume.job_of({"resume": "last"}, runs, is_local=False).resume == "2-saved"
    assert resume.job_of({"resume": "last"}, runs, is_local=True).resume == "5-local"


def test_a_run_whose_hosts_may_know_more_is_the_last_where_none_is_known_to_have_saved(
    runs: Path,
) -> None:
    ended(runs, "1-unsaved", None)
    record(runs, "2-left", local=False)
    ended(runs, "3-refused", None, "refused")
    assert located(runs, resume="last").resume == "2-left"
    (runs / "3-refused" / "events.jsonl").write_text(
        r'{"text":"@rankboard {\"event\":\"saved\",\"rank\":0}"}' + "\n"
    )
    assert located(runs, resume="last").resume == "3-refused", "its records tell of one"


@pytest.mark.parametrize("work", [replace(OLD, checkpoint_every=""), OLD])
def test_a_run_without_a_checkpoint_is_refused_before_the_start(work: Job, runs: Path) -> None:
    ended(runs, "1-saved", 20)
    folder = ended(runs, "2-unsaved", None, work=work)
    Path(folder / "launcher.pid").unlink()
    with pytest.raises(PlanError) as error:
        located(runs, resume="2-unsaved")
    assert str(error.value) == (
        "--resume 2-unsaved: 2-unsaved ended before a checkpoint was complete"
        if work.checkpoint_every
        else "--resume 2-unsaved: The run saved no checkpoint. Start it with --checkpoint-every."
    )


@pytest.mark.parametrize(
    ("settings", "done"),
    [
        ({}, 30),
        ({"epochs": 3, "log_every": 5}, 30),
        ({"epochs": 2}, 20),
        ({"epochs": 4}, 0),
        ({"epochs": None, "steps": 30}, 30),
        ({"epochs": None, "steps": 31}, 0),
        ({"lr": 0.5}, 0),
        ({"batch_size": 7}, 0),
    ],
    ids=str,
)
def test_a_run_that_is_complete_is_refused_before_the_start(
    settings: dict[str, Any], done: int, runs: Path
) -> None:
    """As far as that is known: another batch size makes other steps."""
    ended(runs, "old", 30, "finished", steps=30)
    if not done:
        assert located(runs, resume="old", **settings).resume == "old"
        return
    with pytest.raises(PlanError) as error:
        located(runs, resume="old", **settings)
    assert (
        str(error.value)
        == f"--resume old: Already complete ({done} steps). Raise --epochs or --steps to continue."
    )


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"steps": "many", "ranks": [7, {"checkpoint_step": "x"}], "verdict": 3}', "7"],
)
def test_a_summary_that_is_none_tells_nothing(text: str, runs: Path) -> None:
    (record(runs, "old", local=False) / "summary.json").write_text(text)
    assert located(runs, resume="old").resume == "old"
