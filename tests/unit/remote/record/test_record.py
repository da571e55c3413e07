"""The run directory: what is written is read back, a full disk costs records only, and the summary
tells what became of it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote.events import RemarkMade, expand
from remote.plan.plan import OnNan, Plan, PlanError, Policy
from remote.record import layout, lock, summary, trust
from remote.record.events_file import RunFolderError
from remote.record.events_file import read_records as read
from remote.record.lock import Holder, launcher
from remote.record.read import load_plan
from remote.record.write import Recorder
from remote.run.run_state import RunState
from tests.kit.histories import GLOO, START, History, plan, raised, said, state_of
from tests.kit.recorded import record
from training.job import Job
from training.options import Option
from training.wire.events import PREFIX, SESSION, Record, encode, to_object
from training.wire.host_events import Exited, Hello, HostSample, OutputText
from training.wire.jsonl import dumps
from training.wire.rank_events import Drifted, Epoch, Evaluated

HELLO = Hello(
    "box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30, "2.14.1", "0.29.1"
)


COLOURS = (Option("red", 0, ""), Option("blue", 0, ""))
"""Options of a sync method."""


def test_a_run_is_read_back(tmp_path: Path) -> None:
    history = History(plan()).session(RemarkMade(1, "Wëlcome")).training(steps=12)
    history.rank(1, Exited(1, -9, "SIGKILL")).rank(0, *raised(0, GLOO))
    into, state = Recorder(tmp_path / "runs", history.plan), RunState(history.plan)
    record(into, history, state)
    into.close(state)
    assert load_plan(into.folder) == history.plan
    assert list(read(into.folder)) == [part for one in history.records for part in expand(one)]
    again = state_of(history.plan, read(into.folder))
    assert again.cause == state.cause
    assert again.cause is not None


def test_the_folder_is_the_users_own(tmp_path: Path) -> None:
    into = Recorder(tmp_path / "runs", plan())
    assert into.folder == tmp_path / "runs" / plan().run
    assert stat.S_IMODE(into.folder.stat().st_mode) == 0o700
    assert {path.name for path in into.folder.iterdir()} == {
        "plan.json",
        "plan.mac",
        "logs",
        "launcher.pid",
    }


def test_one_launcher_at_a_time_records_a_run(tmp_path: Path) -> None:
    first = Recorder(tmp_path, plan())
    assert launcher(first.folder) == Holder(os.getpid(), socket.gethostname())
    with pytest.raises(PlanError, match=f"is still there, process {os.getpid()}: leave it"):
        Recorder(tmp_path, plan(), continues=True)
    first.release()
    assert launcher(first.folder) is None
    second = Recorder(tmp_path, plan(), continues=True)
    second.release()


def test_who_only_looks_keeps_no_launcher_from_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `rankboard runs` and `ps` do, of every run that has not ended."""
    Recorder(tmp_path, plan()).release()
    path = tmp_path / plan().run / layout.LOCK
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(
        lock, "time", SimpleNamespace(sleep=lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
    )
    again = Recorder(tmp_path, plan(), continues=True)
    assert launcher(again.folder) == Holder(os.getpid(), socket.gethostname())
    again.release()
    os.close(looking)


def test_a_line_that_an_earlier_launcher_tore_tears_no_other(tmp_path: Path) -> None:
    first = Recorder(tmp_path, plan())
    (first.folder / layout.EVENTS).write_bytes(b'{"event":"hel')
    first.release()
    second = Recorder(tmp_path, plan(), continues=True)
    second.write(Record(SESSION, 0, 1, 1.0, RemarkMade(SESSION, "whole")))
    second.flush()
    second.release()
    assert [record.event for record in read(second.folder)] == [RemarkMade(SESSION, "whole")]


@pytest.mark.parametrize("script", [False, True])
def test_plans(tmp_path: Path, script: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.options.declared_options", lambda method: COLOURS)
    made = plan(3, 2, script)
    made = replace(
        made,
        policy=Policy(keep=True, on_nan=OnNan.STOP, max_restarts=2),
        work=made.work
        if script
        else Job(lr=0.25, model="vgg11", data_dir="/data", sync_option=("red=2", "blue=3")),
    )
    folder = Recorder(tmp_path, made).folder
    assert load_plan(folder) == made
    launcher = json.loads((folder / "plan.json").read_text())["launcher"]
    assert set(launcher) == {"rankboard", "python", "executable", "platform"}


def test_a_plan_of_a_later_version_is_read(tmp_path: Path) -> None:
    folder = Recorder(tmp_path, plan()).folder
    data = json.loads((folder / "plan.json").read_text())
    data["hosts"][0]["colour"] = "blue"
    data["work"]["job"]["magic"] = 1
    (folder / "plan.json").write_text(json.dumps(data))
    assert load_plan(folder) == trust.harmless(plan()), "which we have not recorded so"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format":1,"run":"r","hosts":[{}],"work":{"job":{}},"keep":false}',
        '{"work":{}}',
        "7",
    ],
)
def test_what_is_no_plan_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(RunFolderError, match=r"holds no run: plan\.json"):
        load_plan(tmp_path)
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"plan\.json is not a plan"):
        load_plan(tmp_path)


def test_no_records_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"holds no run: events\.jsonl"):
        list(read(tmp_path))


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    into = Recorder(tmp_path, plan())
    one = Record(SESSION, 0, 1, START, RemarkMade(0, "hello"))
    into.write(one)
    into.raw(encode(one).encode()[:-20])
    into.flush()
    assert list(read(into.folder)) == [one]


@pytest.mark.parametrize("ending", ["\n", ""])
def test_a_launcher_that_was_killed_behind_a_line_loses_nothing(
    tmp_path: Path, ending: str
) -> None:
    recorder = Recorder(tmp_path, plan())
    records = [Record(SESSION, 0, number, START, RemarkMade(0, "hello")) for number in (1, 2)]
    recorder.write(records[0])
    recorder.raw((encode(records[1]) + ending).encode())
    recorder.flush()
    assert list(read(recorder.folder)) == records


def test_logs_hold_every_line_and_no_event(tmp_path: Path) -> None:
    into = Recorder(tmp_path, plan(2))
    wire = PREFIX + dumps(to_object(Evaluated(0, 1, 1, 0.5, 0.5, 1, 0.1)))
    texts = [
        (0, OutputText(0, "stdout", f"one\n{wire}\ntwo")),
        (0, OutputText(0, "stderr", "\x1b[31mred\x1b[0m 10%\r20%\n")),
        (0, OutputText(0, "stdout", "\ud800 ä")),
        (1, OutputText(1, "stdout", "other")),
        (1, OutputText(-1, "stderr", "agent")),
        (1, OutputText(99, "stderr", "nobody")),
    ]
    for host, text in texts:
        for part in expand(Record(host, 0, 1, START, text)):
            into.text(part)
    into.flush()
    logs = {path.name: path.read_bytes().decode() for path in (into.folder / "logs").iterdir()}
    assert logs == {
        "rank-0.log": "one\ntwo\n\x1b[31mred\x1b[0m 10%\r20%\n\n\\ud800 ä\n",
        "rank-1.log": "other\n",
        "host-1.log": "agent\nnobody\n",
    }


def test_a_text_that_is_no_unicode_is_read_back(tmp_path: Path) -> None:
    into = Recorder(tmp_path, plan())
    one = Record(SESSION, 0, 1, START, RemarkMade(0, "\ud800\udc80"))
    into.write(one)
    into.flush()
    assert len(list(read(into.folder))) == 1


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        PlanError, match=r"cannot record the run in .*file.*give another --runs-dir"
    ):
        Recorder(tmp_path / "file", plan())
    Recorder(tmp_path, plan())
    with pytest.raises(PlanError, match="File exists"):
        Recorder(tmp_path, plan())


def test_a_full_disk_is_said_once_and_a_gap_tears_no_later_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = Recorder(tmp_path, plan())
    records = [Record(SESSION, 0, seq, START, RemarkMade(0, f"number {seq}")) for seq in range(4)]

    def full(path: Path, data: bytes) -> None:
        """Append to a disk that takes ten bytes more."""
        with open(path, "ab") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    into.write(records[0])
    assert into.flush() == ""
    with monkeypatch.context() as patch:
        patch.setattr("remote.record.files.append", full)
        into.write(records[1])
        assert (
            into.flush()
            == f"cannot write {into.folder}/events.jsonl: No space left on device; the run "
            "continues, but its record has gaps"
        )
        into.write(records[2])
        assert into.flush() == ""
    into.write(records[3])
    assert into.flush() == ""
    assert [one.seq for one in read(into.folder)] == [0, 3]


def test_one_file_that_fails_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    into = Recorder(tmp_path, plan())
    (into.folder / "logs" / "rank-0.log").mkdir()
    for rank in range(2):
        into.text(Record(0, 0, 1, START, OutputText(rank, "stdout", "hello")))
    assert "rank-0.log: Is a directory" in into.flush()
    assert (into.folder / "logs" / "rank-1.log").read_text() == "hello\n"


def test_no_file_stays_open(tmp_path: Path) -> None:
    into = Recorder(tmp_path, plan(200))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for rank in range(200):
        into.text(Record(rank, 0, 1, START, OutputText(rank, "stdout", "hello")))
    into.flush()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(list((into.folder / "logs").iterdir())) == 200


def closed(made: Plan, folder: Path) -> dict[str, Any]:
    history = (
        History(made)
        .say(1, HELLO)
        .training(steps=12, data=0.01, compute=0.06, sync=0.03, samples=16)
        .rank(1, Evaluated(1, 1, 10, 0.5, 0.75, 100, 0.1))
    )
    state = history.rank(1, said(1, "oops"), Exited(1, 3)).closed()
    into = Recorder(folder, made)
    into.close(state)
    found: dict[str, Any] = json.loads(
        (into.folder / "summary.json").read_text(), parse_constant=pytest.fail
    )
    return found


def test_the_summary(tmp_path: Path) -> None:
    found = closed(plan(2), tmp_path)
    assert (found["verdict"], found["exit_code"], found["steps"]) == ("failed", 1, 40)
    assert found["cause"]["text"] == "node2, rank 1: exit code 3 at step 12"
    assert found["cause"]["tail"] == ["oops"]
    assert found["job"]["model"] == "lenet5"
    assert found["hosts"][1]["facts"]["torchvision"] == "0.29.1"
    assert found["hosts"][0]["facts"] is None
    rank = found["ranks"][1]
    assert (rank["host"], rank["fate"], rank["exit"], rank["step"], rank["epoch"]) == (
        "node2",
        "failed",
        "exit code 3",
        12,
        2,
    )
    assert rank["loss"] == pytest.approx(2 / 12)
    assert (rank["test_loss"], rank["test_accuracy"], rank["accuracy"]) == (0.5, 0.75, 0.0)
    assert (rank["timing_rule"], rank["median"], rank["p95"], rank["mean"]) == (
        pytest.approx(0.1),
    ) * 4
    means = {
        "seconds": 0.1,
        "data": 0.01,
        "compute": 0.06,
        "sync": 0.03,
        "samples_per_second": 160.0,
    }
    means |= {"data_share": 0.1, "compute_share": 0.6, "sync_share": 0.3}
    assert rank["means"]["iterations_2_to_40"] == pytest.approx(means)
    assert rank["means"]["iterations_from_2"] == pytest.approx(means)
    assert rank["means"]["all_iterations"] == pytest.approx(means)
    assert found["means"]["all_iterations"] == pytest.approx(means | {"samples_per_second": 320.0})
    assert rank["epoch_seconds"] == [pytest.approx(1.0)]
    assert rank["torch"] == "2.14.1"


def test_the_summary_tells_no_rate_of_samples_that_were_not_told() -> None:
    state = History(plan(2)).training(steps=3, samples=0).done(0, 1).closed()
    means = summary.summarize(state)["means"]["all_iterations"]
    assert means["seconds"] == pytest.approx(0.1)
    assert means["samples_per_second"] is None


def two_epochs(made: Plan, *matrices: tuple[tuple[int, ...], ...]) -> RunState:
    """A run of two epochs, each with an evaluation."""
    history = History(made).training(steps=20)
    for epoch, confusion in enumerate(matrices, 1):
        for rank in range(2):
            own = 0.25 if made.world_size > 1 and rank else -1.0
            history.rank(rank, Epoch(rank, epoch, 10 * epoch, 0.5 / epoch, 0.25 * epoch, 32, 1.5))
            table, names = (confusion, ("cat", "dog")) if rank == 0 else ((), ())
            history.rank(
                rank,
                Evaluated(rank, epoch, 10 * epoch, 1.0 / epoch, 0.7, 10, 0.1, table, own, names),
            )
    return history.done(0, 1).closed()


def test_the_summary_has_the_epochs_and_the_test(tmp_path: Path) -> None:
    state = two_epochs(plan(2), ((10, 0), (0, 0)), ((3, 2), (1, 4)))
    into = Recorder(tmp_path, plan(2))
    assert into.close(state) == ""
    found = json.loads((into.folder / "summary.json").read_text(), parse_constant=pytest.fail)
    assert found["training_seconds"] == pytest.approx(2.0)
    assert [one["loss"] for one in found["evaluations"]] == [1.0, 0.5]
    epoch = {
        "epoch": 2,
        "step": 20,
        "train_loss": 0.25,
        "train_accuracy": 0.5,
        "samples": 32,
        "seconds": 1.5,
    }
    assert [len(rank["epochs"]) for rank in found["ranks"]] == [2, 2]
    assert found["ranks"][1]["epochs"][1] == epoch
    assert [rank["own_accuracy"] for rank in found["ranks"]] == [None, 0.25]
    test = found["test"]
    assert (test["epoch"], test["loss"], test["confusion"]) == (2, 0.5, [[3, 2], [1, 4]])
    assert test["report"]["cat"] == {
        "precision": 0.75,
        "recall": 0.6,
        "f1-score": pytest.approx(2 / 3),
        "support": 5,
    }
    text = (into.folder / "report.txt").read_text()
    assert "after epoch 2, step 20: test loss 0.5000, test accuracy 70.0%, 10 samples\n" in text
    assert "         cat       0.75      0.60      0.67         5\n" in text
    assert text.endswith("  0 1\n0 3 2  cat\n1 1 4  dog\n")
    assert test["classes"] == ["cat", "dog"]


@pytest.mark.parametrize("matrix", [(), ((1, 2), (3,)), ((0, 0), (0, 0)), ((1, 2),)], ids=str)
def test_what_is_no_confusion_matrix_gives_no_report(
    tmp_path: Path, matrix: tuple[tuple[int, ...], ...]
) -> None:
    state = two_epochs(plan(2), ((1, 0), (0, 1)), matrix)
    into = Recorder(tmp_path, plan(2))
    assert into.close(state) == ""
    test = json.loads((into.folder / "summary.json").read_text())["test"]
    assert (test["loss"], test["confusion"], test["report"]) == (0.5, None, None)
    assert not (into.folder / "report.txt").exists()


def test_drift_is_noted_once_and_remarked() -> None:
    history = History(plan(2)).training(steps=4)
    state = history.rank(0, Drifted(0, 2, 2e-6), Drifted(0, 4, 5e-3), Drifted(0, 6, 4e-3)).state()
    assert [note.text for note in state.log.notes] == [
        "drift: after step 2 the ranks' models differ by 2.0e-06, relatively"
    ]
    assert summary.summarize(state)["remarks"] == [
        "drift: from step 2 on the ranks' models differed, at most by 5.0e-03, relatively"
    ]


def test_a_run_that_was_left_has_no_verdict(tmp_path: Path) -> None:
    made = plan(1, script=True)
    into = Recorder(tmp_path, made)
    assert into.close(RunState(made)) == ""
    found = json.loads((into.folder / "summary.json").read_text(), parse_constant=pytest.fail)
    assert (found["verdict"], found["cause"], found["script"]) == (None, None, ["train.py"])


def test_a_summary_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    into = Recorder(tmp_path, plan())
    (into.folder / layout.SUMMARY).mkdir()
    assert "cannot write" in into.close(RunState(plan()))


def test_strict_json() -> None:
    assert summary.to_strict_json({"a": [float("nan"), (1.0, float("inf"))], "b": 2}) == {
        "a": [None, [1.0, None]],
        "b": 2,
    }


@pytest.mark.parametrize(
    ("boots", "cores", "remarks"),
    [
        (
            ("one", "one"),
            2.0,
            [
                "node1 and node2 are the same machine (2 cores): their times say nothing about "
                "separate machines"
            ],
        ),
        (("one", "one"), 1.0, []),
        (("one", "two"), 2.0, []),
    ],
)
def test_hosts_that_share_cores_are_remarked(
    boots: tuple[str, str], cores: float, remarks: list[str]
) -> None:
    """With a quota that leaves each its own, or on machines of their own, there is nothing to
    say."""
    history = History(plan(2))
    for host, boot in enumerate(boots):
        history.say(host, replace(HELLO, boot_id=boot, cores=cores), HostSample((50.0, 50.0), 1, 2))
    assert summary.summarize(history.state())["remarks"] == remarks
