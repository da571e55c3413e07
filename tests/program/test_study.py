"""`rankboard study` from start to end: what is killed in the middle is made again, and nothing is
measured twice."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import psutil

from tests.kit.launches import Launched, launch, left_behind, run
from tests.kit.wait import wait

TEXT = """
title = "Short and long"
question = "Do more steps take longer each?"
repetitions = 1
seed = 2  # the long run is the first
[job]
model = "lenet5"
dataset = "digits"
batch_size = 16
sync = "none"
nodes = 1
processes = 2
[axes]
length = [{ label = "short", steps = 4 }, { label = "long", steps = 40 }]
[quick]
repetitions = 2
limit = "60 s"
job = { lr = 0.2 }
"""
HERE = ("tiny.toml", "--local", "2", "--slots", "2")
"""On one host: two ranks with a thread each. Two threads of a rank would wait by spinning."""


def begin(folder: Path, *words: str) -> Launched:
    return launch(folder, *words, command=("study",))


def long_run(launched: Launched) -> str:
    """The name of the next run of many steps, as it begins."""
    while True:
        (event,) = launched.events("begun")
        if event["cell"]["length"] == "long":
            return str(event["run"])


def told(folder: Path, run: str, event: str) -> list[dict[str, Any]]:
    """What was recorded of a run so far."""
    path = folder / "runs" / run / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if f'"event":"{event}"' in line]


def journal(folder: Path) -> list[dict[str, Any]]:
    path = folder / "runs" / "tiny.study" / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def counted(folder: Path) -> dict[str, list[str]]:
    """The runs that count, by trial."""
    found: dict[str, list[str]] = {}
    for line in journal(folder):
        if line["event"] == "ended" and line["outcome"] == "counted":
            found.setdefault(line["trial"], []).append(line["run"])
    return found


def test_a_cell_of_which_a_rank_was_killed_is_measured_by_the_next_call(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TEXT)
    first = begin(tmp_path, *HERE, "--lr", "0.03")
    broken = long_run(first)
    wait(lambda: told(tmp_path, broken, "spawned"), "a rank")
    psutil.Process(told(tmp_path, broken, "spawned")[0]["pid"]).kill()
    (failed,) = first.events("ended")
    assert failed["run"] == broken
    assert failed["outcome"] == "failed"
    assert "killed by SIGKILL" in failed["cause"]
    (results,) = first.events("results")
    assert first.end() == 1
    assert [len(cell["values"]) for cell in results["cells"]] == [1, 0]
    before = counted(tmp_path)
    assert list(before) == ["length=short #1"]
    changed = run(tmp_path, "study", *HERE, "--batch-size", "8", "--dry-run")
    assert changed.returncode == 2
    assert "changed: batch_size 16, now 8. 1 run would no longer fit" in changed.stderr
    # The command that it proposes does what was meant.
    _, _, *afresh = shlex.split(changed.stderr.splitlines()[-1])
    assert afresh == ["study", "tiny.toml", "--new", *HERE[1:], "--lr", "0.03", "--batch-size", "8"]
    dry = run(tmp_path, *afresh, "--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    jobs = [json.loads(line)["job"] for line in dry.stdout.splitlines()]
    assert [(job["batch_size"], job["lr"]) for job in jobs] == [(8, 0.03)] * 2

    second = run(tmp_path, "study", *HERE, "--run")
    assert second.returncode == 0, second.stderr
    assert "rankboard: 1 of 2 runs is there" in second.stderr
    after = counted(tmp_path)
    assert [len(runs) for runs in after.values()] == [1, 1]
    assert after.items() >= before.items()
    wait(lambda: not left_behind(tmp_path), "nothing is left behind")


def test_a_dry_run_starts_nothing_and_the_dashboard_needs_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TEXT.replace("processes = 2\n", ""))
    here = ("tiny.toml", "--local", "2")
    dry = run(tmp_path, "study", *here, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert len(dry.stdout.splitlines()) == 3
    assert "all runs: sync none, model lenet5, dataset digits, batch_size 16, lr 0.1" in dry.stderr
    assert "hosts: local1, local2 (this machine)" in dry.stderr
    shares = "their times say nothing about separate machines"
    assert shares in dry.stderr
    own_cores = run(tmp_path, "study", *here, "--link", "1gbit", "--cpus", "0.2", "--dry-run")
    assert own_cores.returncode == 0, own_cores.stderr
    assert shares not in own_cores.stderr
    lines = run(tmp_path, "study", *here, "--dry-run", "--json").stdout.splitlines()
    assert [json.loads(line)["job"]["steps"] for line in lines] == [40, 4]
    refused = run(tmp_path, "study", *here)
    assert refused.returncode == 2
    assert "without one, use --run" in refused.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "tiny.toml"]


SCRIPT = """
import sys
for step in range(1, 6):
    print(f"step {step}/5 loss {1 / step:.4f} bleu {step * float(sys.argv[1]):.1f}", flush=True)
"""
RATES = """
repetitions = 1
metric = "metric:bleu"
[base]
script = "train.py {rate}"
[axes]
rate = [1, 2.5]
"""


def test_a_study_of_a_script(tmp_path: Path) -> None:
    """Its arguments are axes, and what it prints is compared. Where it prints no such metric, the
    first run shows that, and is repeated once the name is right, whatever its case."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "rates.toml").write_text(RATES.replace("metric:bleu", "metric:blue"))
    here = ("rates.toml", "--local", "1")
    wrong = run(tmp_path, "study", *here, "--run")
    assert wrong.returncode == 1
    assert "failed: the run has no blue; it has bleu" in wrong.stderr
    assert ": did you mean 'bleu'?" in wrong.stderr
    assert "2 runs left (metric = 'metric:blue' is not in its first run): correct" in wrong.stderr
    assert len(list((tmp_path / "runs").glob("*-train-*"))) == 1

    (tmp_path / "rates.toml").write_text(RATES.replace("metric:bleu", "metric:BLEU"))
    dry = run(tmp_path, "study", *here, "--dry-run")
    assert [line.split()[-1] for line in dry.stdout.splitlines()[1:]] == ["waiting", "waiting"]
    done = run(tmp_path, "study", *here, "--run")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "runs").glob("*-train-*"))) == 3
    assert "2.5 has the highest BLEU (+7.5 against 1)" in done.stderr
    assert run(tmp_path, "report", "rates").returncode == 0
    report = (tmp_path / "report-rates" / "report.md").read_text()
    assert "2.5 has the highest BLEU" in report
    assert "BLEU compared" in report


LONG_AT_FIRST = """
import os, sys, time
if sys.argv[1] == "long" and not os.path.exists("begun"):
    open("begun", "w").close()
    time.sleep(600)
print("step 1/1 loss 0.5", flush=True)
"""
LENGTHS = """
repetitions = 1
metric = "loss"
seed = 2  # the long run is the first
[base]
script = "train.py {length}"
[axes]
length = ["short", "long"]
"""


def test_a_study_of_which_the_launcher_was_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LONG_AT_FIRST)
    (tmp_path / "tiny.toml").write_text(LENGTHS)
    first = begin(tmp_path, "tiny.toml", "--local", "1")
    lost = long_run(first)
    wait((tmp_path / "begun").exists, "a rank")
    first.process.kill()
    first.end()

    second = run(tmp_path, "study", "tiny", "--run", "--json")
    assert second.returncode == 0, second.stderr
    events = [json.loads(line) for line in second.stdout.splitlines()]
    assert (events[0]["event"], events[0]["run"]) == ("ending", lost)
    assert events[1]["outcome"] == "interrupted"
    assert [len(cell["values"]) for cell in events[-1]["cells"]] == [1, 1]
    assert [len(runs) for runs in counted(tmp_path).values()] == [1, 1]
    wait(lambda: not left_behind(tmp_path), "nothing is left behind")
