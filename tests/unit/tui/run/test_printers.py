"""What the printers print: plain lines, JSON lines, the live picture, and the end of a run."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from remote.cluster.hosts import Cluster
from remote.events import (
    ClockMeasured,
    Detached,
    HostLost,
    HostPhaseChanged,
    HostSilent,
    RemarkMade,
    Restarted,
    Stalled,
    StartRefused,
    Stopping,
    expand,
)
from remote.format import percent, rate, step_time
from remote.launch import Launcher
from remote.run.apply import apply_record
from remote.run.findings.script_visibility import SOON
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.run.state.types import Cause
from remote.session.notify import Notifier
from remote.transport.registry import Transports
from tests.kit.histories import GLOO, START, History, block_of, plan, raised, said, stepped
from tests.kit.printing import FOLDER, HELLO, good, printed, show
from tests.kit.scripts import ended, logging, script, seen, started
from training.job import Job
from training.wire.enums import EndReason
from training.wire.events import PREFIX, SESSION, Record
from training.wire.host_events import (
    AgentEnded,
    Exited,
    GpuSample,
    HostSample,
    Launched,
    OutputText,
    RankSample,
    RecordsDropped,
)
from training.wire.rank_events import Entered, Evaluated, Saved, ScriptMetrics, StepFinished
from tui.app import show_run as front
from tui.app.second_signal import Watched
from tui.run import live_printer as live
from tui.run import outcome
from tui.run.end_verdict import judge_ended_run
from tui.run.json_printer import JsonPrinter
from tui.run.narration import HOLD_SECONDS, GatheredLines, Narration
from tui.run.plain_printer import PlainPrinter
from tui.run.printer import run_printer
from tui.run.progress_lines import ProgressLines, progress_text
from tui.run.run_verdict import VerdictKeys


def failed() -> History:
    """A run in which rank 1 raises and rank 0 dies of it."""
    history = (
        History(plan(2))
        .training(steps=12)
        .rank(0, *raised(0, GLOO))
        .rank(1, *raised(1, "ValueError: bad batch"))
    )
    history.session(Stopping("a rank failed", False)).closed()
    return history


@pytest.mark.parametrize("quiet", [False, True])
def test_who_comes_to_stop_a_run_hears_neither_what_was_told_before_nor_what_ranks_print(
    quiet: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    history = good()
    before = history.session(RemarkMade(SESSION, "told long ago")).state()
    with run_printer(before, False, FOLDER, quiet=quiet) as to:
        to.batch([record for one in history.records for record in expand(one)], before)
        to.end(before)
    out, err = capsys.readouterr()
    assert ("Batch Idx" in out) != quiet
    assert "iter 2-40" in out
    assert "training: 2 ranks" in err
    assert "told long ago" not in err


def test_plain_lines_and_the_table_go_to_stdout() -> None:
    out, err = printed(good(), PlainPrinter)
    lines = out.splitlines()
    assert lines[:3] == ["[rank 0] Batch Idx: 20", "[rank 0] 1.0", "[node2] preload speaks"]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines[3:] if "|" in line]
    assert cells == [
        [
            "host",
            "rank",
            "iter 2-40",
            "per step",
            "data",
            "compute",
            "sync",
            "samples/s",
            "epoch",
            "loss",
        ],
        ["node1", "0", "100 ms", "100 ms", "10 ms", "60 ms", "30 ms", "160", "1.00 s", "0.0681"],
        ["node2", "1", "100 ms", "100 ms", "10 ms", "60 ms", "30 ms", "160", "1.00 s", "0.0681"],
        ["all", "", "100 ms", "100 ms", "10 ms", "60 ms", "30 ms", "320", "1.00 s", "0.0681"],
        ["share", "", "", "", "10%", "60%", "30%", "", "", ""],
    ]
    bound = lines.pop(-2)
    assert re.fullmatch(r"\d+% of each step is (data|compute|sync)", bound)
    assert lines[-3:] == [
        "iter 2-40: mean of iterations 2 to 40; loss: mean of the last 20 steps",
        "per step, data, compute, sync, samples/s: means of all iterations but the first",
        "test accuracy 91.4%, test loss 0.5000",
    ]
    assert (
        err.count(
            "rankboard: training: 2 ranks, 40 steps, 61,706 parameters, 640 samples, gloo on cpu\n"
        )
        == 1
    )
    assert err.endswith("rankboard: finished in 1 s; training took 4.00 s of it\n")


def test_phases_and_shares_are_of_the_steps_of_the_sentence_below() -> None:
    """Ranks wait much longer after step 40 than before."""
    history = History(plan(2)).training(total=100)
    for step in range(1, 101):
        sync = 0.01 if step <= 40 else 0.2
        for rank in (0, 1):
            seconds = 0.03 + sync
            history.rank(
                rank, stepped(rank, step, seconds, data=0.01, compute=0.02, sync=sync, samples=16)
            )
    state = history.done(0, 1).closed()
    columns, rows = outcome.result_table(state)
    table_rows = {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
    warm_syncs = [0.01] * 39 + [0.2] * 60
    mean_sync = sum(warm_syncs) / len(warm_syncs)
    of_all = table_rows["all"]
    assert of_all["iter 2-40"] == "40 ms"
    assert of_all["per step"] == step_time(0.03 + mean_sync)
    assert of_all["sync"] == step_time(mean_sync)
    assert of_all["samples/s"] == rate(2 * 16 / (0.03 + mean_sync))
    share = percent(mean_sync / (0.03 + mean_sync))
    assert table_rows["share"]["sync"] == share
    (sentence,) = (line for line in outcome.result_captions(state) if "of each step is" in line)
    assert sentence.startswith(f"{share} of each step is sync")


def starting(hosts: int = 4) -> History:
    """A run whose hosts are all reached and well."""
    history = History(plan(hosts)).session(
        RemarkMade(SESSION, "the run stops if this terminal disconnects")
    )
    for host in range(hosts):
        history.session(HostPhaseChanged(host, "connecting")).say(host, HELLO).session(
            ClockMeasured(host, 0.0), HostPhaseChanged(host, "ready")
        )
    return history


def test_a_healthy_run_takes_few_lines_to_its_first_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    history = starting().training(steps=1)
    with run_printer(RunState(history.plan), False, FOLDER) as to:
        show(history, to)
    before = capsys.readouterr().err.splitlines()[:-1]
    assert before == [
        f"rankboard: run {history.plan.run}: 4 ranks on node1 to node4, ddp, lenet5 on digits",
        "rankboard: the run stops if this terminal disconnects",
        "rankboard: training: 4 ranks, 40 steps, 61,706 parameters, 640 samples, gloo on cpu",
    ]


def test_one_rank_is_no_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    history = starting(1).training(steps=1, total=1)
    with run_printer(RunState(history.plan), False, FOLDER) as to:
        show(history, to)
    said = capsys.readouterr().err
    assert ": 1 rank on node1, ddp" in said
    assert "training: 1 rank, 1 step, 61,706" in said


def test_all_is_told_to_who_wants_it() -> None:
    _, err = printed(starting(), partial(PlainPrinter, verbose=True))
    assert "rankboard: node1: connecting\n" in err
    assert "rankboard: node1: box, Python 3.11.2, torch 2.14.1, 2 cores\n" in err


def test_what_several_hosts_and_ranks_say_is_told_once() -> None:
    history = starting()
    for host in range(4):
        history.session(RemarkMade(host, "a word of the login shell"))
        history.rank(host, Launched((host,)), said(host, f"UserWarning: old CPU\nmine is {host}"))
    history.session(HostSilent(2, 10.0)).say(2, HELLO)
    history.session(RemarkMade(SESSION, "go")).training(steps=1).closed()
    out, err = io.StringIO(), io.StringIO()
    show(history, PlainPrinter(out, err), size=1)
    assert err.getvalue().splitlines()[1:4] == [
        "rankboard: node1 to node4: a word of the login shell",
        "rankboard: node3: silent for 10 s",
        "rankboard: go",
    ]
    lines = out.getvalue().splitlines()
    assert lines[:5] == [
        "[ranks 0 to 3] UserWarning: old CPU",
        *(f"[rank {n}] mine is {n}" for n in range(4)),
    ]


def test_a_refusal_by_all_ranks_is_told_once() -> None:
    history = starting()
    for rank in range(4):
        history.rank(
            rank,
            Launched((rank,)),
            said(rank, "downloading\npython -m training: error: no such data"),
        )
    for rank in range(4):
        history.rank(rank, Exited(rank, 2))
    history.session(Stopping("a rank failed", False)).closed()
    out, err = printed(history, PlainPrinter)
    assert (out + err).count("no such data") == 1
    assert "cause: node1, rank 0: no such data (exit code 2)" in err
    assert "last words" not in err
    assert "fate" not in err
    assert err.endswith("rankboard: refused before the first step\n")


@pytest.mark.parametrize("on", [1, SESSION])
def test_a_refusal_is_told_once(on: int) -> None:
    history = starting().session(
        StartRefused(on, "node2: python3 has no torch; install it with rankboard setup")
    )
    history.closed()
    out, err = printed(history, PlainPrinter)
    assert (out + err).count("no torch") == 1
    assert "cause: node2: python3 has no torch" in err


def test_sentences_wait_a_moment_for_others_that_say_the_same() -> None:
    now = 0.0
    gathered = GatheredLines(lambda: now)
    gathered.add("busy", 3)
    gathered.add("busy", 0)
    gathered.add("busy", 0)
    gathered.add("full", 1)
    assert list(gathered.due()) == []
    now = HOLD_SECONDS
    assert list(gathered.due()) == [
        ("busy", False, [0, 3]),
        ("busy", False, [0]),
        ("full", False, [1]),
    ]
    assert list(gathered.due(at_once=True)) == []


def test_a_flood_of_lines_before_the_first_step_is_held_back_by_nobody() -> None:
    gathered = GatheredLines(lambda: 0.0)
    for _ in range(50_000):  # in time linear in their number
        gathered.add("the same", 0)
    assert sum(1 for _ in gathered.due()) == 50_000


def test_a_run_that_is_left_has_no_table_but_the_way_back() -> None:
    out, err = printed(History(plan(2)).training(steps=3).session(Detached()), PlainPrinter)
    assert out == ""
    assert err.splitlines()[-1].endswith(
        ": the run continues; rankboard attach 20261120-093000-ddp-lenet5-3f9a reattaches to it"
    )


def test_accuracies_by_own_statistics_have_a_column() -> None:
    history = good()
    history.records[-1:-1] = [
        Record(rank, 0, 90, START + 9, Evaluated(rank, 4, 40, 0.5, 0.914, 100, 0.2, (), own))
        for rank, own in enumerate((0.5, 0.75))
    ]
    out, _ = printed(history, PlainPrinter)
    table = [line.rpartition("|")[2].strip() for line in out.splitlines() if "|" in line]
    assert table == ["own accuracy", "50.0%", "75.0%", "62.5%", ""]


def test_the_last_output_is_said_to_be_of_whoever_printed_it() -> None:
    assert outcome.output_source(Cause("node2", 1, "killed")) == "rank 1"
    assert outcome.output_source(Cause("node2", 1, "killed", of_agent=True)) == "the agent on node2"


def test_a_failure_says_whether_memory_was_the_reason_and_how_to_go_on() -> None:
    history = History(plan(2)).training(steps=12).rank(1, RankSample(1, 50.0, 438 << 20))
    history.say(1, HostSample((50.0,), 2 << 30, 24 << 30)).rank(1, Saved(1, 1, 10, 0.1, 1000))
    err = printed(history.rank(1, Exited(1, -9, "SIGKILL")), PlainPrinter)[1]
    lines = err[err.index("cause:") :].splitlines()
    assert lines[1] == "not memory: 438 MiB of 24 GiB"
    command = f"rankboard --run --resume {history.plan.run}"
    assert f"resume from checkpoint 10 (2 steps lost): {command}" in lines


@pytest.mark.parametrize(("steps", "script"), [(12, False), (0, False), (12, True)])
def test_a_failure_without_a_checkpoint_says_how_to_have_one(steps: int, script: bool) -> None:
    history = History(plan(2, script=script)).training(steps=steps)
    err = printed(history.rank(1, Exited(1, -9, "SIGKILL")), PlainPrinter)[1]
    assert ("--checkpoint-every" in err) == (steps > 0 and not script)


def test_it_is_said_that_a_stall_is_in_the_means_only_if_it_is() -> None:
    history = History(plan(2)).training(steps=20)
    history.now += 31
    history.session(Stalled((0, 1), 31.0))
    history.now += 21
    assert not outcome.describe_stalls(history.state()), "it is not over"
    for rank in range(2):
        history.rank(rank, replace(stepped(rank, 21), seconds=52.0))
    text = "a stall of 52 s is in the means of steps: the median is 100 ms per step"
    assert outcome.describe_stalls(history.state()) == [text]
    assert text in printed(history.done(0, 1).ended(), PlainPrinter)[0]

    restarted = History(plan(2)).training(steps=20).session(Stalled((0, 1), 31.0))
    restarted.session(Restarted((0, 1), "stalled"))
    restarted.attempt = 1
    assert not outcome.describe_stalls(restarted.training(steps=20).state())


def test_a_failure_says_its_cause_first() -> None:
    out, err = printed(failed(), PlainPrinter)
    assert "rankboard: ranks 0 and 1 ended: exit code 1\nrankboard: a rank failed\n" in err
    end = err[err.index("cause:") :].splitlines()
    assert end[0] == "cause: node2, rank 1: ValueError: bad batch at step 12; rank 0 followed"
    assert end[1] == "last output of rank 1:"
    assert end[5] == "    ValueError: bad batch"
    assert [line.split(" | ")[2].strip() for line in end[6:] if " | " in line] == [
        "fate",
        "taken down",
        "failed",
    ]
    assert end[-1].startswith("rankboard: failed after ")
    assert "iter 2-12" in out
    assert "last words" not in out


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (
            History(plan()).session(HostLost(2, "node3: no answer within 10 s", False)),
            ["cause: node3: no answer within 10 s"],
        ),
        (
            History(plan()).session(StartRefused(SESSION, "no torch")),
            ["cause: no torch", "refused before the start"],
        ),
        (
            History(plan()).session(Stopping("interrupted (Ctrl+C)", True)),
            ["stopped after 0 s: interrupted (Ctrl+C)"],
        ),
    ],
    ids=["unreachable", "refused", "stopped"],
)
def test_ends_before_the_start_have_no_table(history: History, words: list[str]) -> None:
    history.closed()
    out, err = printed(history, PlainPrinter)
    assert out == ""
    assert all(word in err for word in words)


def test_every_note_is_told_once() -> None:
    history = History(plan(2))
    for number in range(50):
        history.session(RemarkMade(0, f"note {number}")).say(1, HostSample((1.0,), 1, 2))
    history.closed()
    err = printed(history, PlainPrinter)[1]
    assert [line for line in err.splitlines() if "note" in line] == [
        f"rankboard: node1: note {n}" for n in range(50)
    ]


def test_json_has_an_object_for_each_step_of_a_block() -> None:
    steps = [
        StepFinished(0, 1, step, loss, 0.125, samples=16, bytes_sent=2**40, loss_known=step != 3)
        for step, loss in enumerate((2.0, 1.5, math.nan, math.inf, -0.5), start=1)
    ]
    begun = History(plan(2)).session(ClockMeasured(0, 7.0)).training()
    one_by_one, in_a_block = deepcopy(begun), deepcopy(begun)
    one_by_one.say(0, *steps, after=0.25)
    in_a_block.say(0, block_of(steps, one_by_one.now, 0.25), after=1.25)
    make = partial(JsonPrinter, folder=FOLDER)
    found, expected = (
        [
            json.loads(line, parse_constant=pytest.fail)
            for line in printed(history, make)[0].splitlines()
        ]
        for history in (in_a_block, one_by_one)
    )
    found_steps = [one for one in found if one["event"] == "step"]
    assert [one["loss"] for one in found_steps] == [2.0, 1.5, None, None, -0.5]
    assert [list(one) for one in found] == [list(one) for one in expected]
    times = [one.pop("time") for one in found_steps]
    expected_steps = [one for one in expected if one["event"] == "step"]
    assert times == pytest.approx([one.pop("time") for one in expected_steps], abs=1e-5, rel=0)
    assert found_steps == expected_steps


def test_json_is_one_strict_object_per_event_and_nothing_else() -> None:
    history = good()
    history.records.insert(
        -1, Record(0, 0, 99, START + 9, stepped(0, 41, float("nan"), sync=float("inf")))
    )
    out, err = printed(history, partial(JsonPrinter, folder=FOLDER))
    found: list[dict[str, Any]] = [
        json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()
    ]
    assert all(list(one)[:4] == ["event", "time", "host", "rank"] for one in found)
    steps = [one for one in found if one["event"] == "step"]
    assert len(steps) == 81
    assert steps[0] | {"time": 0} == {
        "event": "step",
        "time": 0,
        "host": "node1",
        "rank": 0,
        "epoch": 1,
        "step": 1,
        "loss": 2.0,
        "seconds": 0.1,
        "data": 0.01,
        "compute": 0.06,
        "sync": 0.03,
        "ready": 0.0,
        "cpu_seconds": 0.0,
        "samples": 16,
        "correct": 0,
        "bytes_sent": 0,
        "staleness": 0,
        "loss_known": True,
    }
    assert (steps[-1]["seconds"], steps[-1]["sync"]) == (None, None)
    texts = [
        (one["host"], one["rank"], one["stream"], one["line"])
        for one in found
        if one["event"] == "text"
    ]
    assert texts == [
        ("node1", 0, "stdout", "Batch Idx: 20"),
        ("node1", 0, "stdout", "\x1b[31m[red]Loss\r1.0"),
        ("node2", None, "stderr", "preload speaks"),
    ]
    assert found[0]["event"] == "run"
    assert found[1] | {"time": 0} == {
        "event": "reaching",
        "time": 0,
        "host": "node1",
        "rank": None,
        "phase": "connecting",
    }
    assert found[-2]["event"] == "closed"
    assert found[-2]["host"] is None
    assert (found[-1]["event"], found[-1]["verdict"]) == ("summary", "finished")
    assert "rankboard: finished" in err


def test_json_has_the_values_of_a_program_by_name() -> None:
    history = good().rank(
        0, ScriptMetrics(0, 3, 0.5, (("val_loss", 0.25), ("reward", float("nan"))))
    )
    out, _ = printed(history, partial(JsonPrinter, folder=FOLDER))
    found = [one for one in map(json.loads, out.splitlines()) if one["event"] == "metrics"]
    assert [(one["step"], one["epoch"], one["values"]) for one in found] == [
        (3, 0.5, {"val_loss": 0.25, "reward": None})
    ]


def test_json_has_the_time_of_the_step_of_a_value_by_the_launchers_clock() -> None:
    history = good().session(ClockMeasured(0, 3600.0))
    values = (("lr", 0.25),)
    metrics = [
        ScriptMetrics(0, step, 0.0, values, step_time=time)
        for step, time in ((1, 0.0), (2, START + 3605.0))
    ]
    out, _ = printed(history.rank(0, *metrics), partial(JsonPrinter, folder=FOLDER))
    found = [one for one in map(json.loads, out.splitlines()) if one["event"] == "metrics"]
    assert [one["step_time"] for one in found] == [None, START + 5.0]


def test_json_times_are_by_the_launchers_clock() -> None:
    history = History(plan(1)).session(ClockMeasured(0, 3600.0))
    history.records.append(Record(0, 0, 5, START + 3605, Launched((0,))))
    out = printed(history, partial(JsonPrinter, folder=FOLDER))[0]
    assert json.loads(out.splitlines()[-2])["time"] == START + 5


class Closed(io.StringIO):
    """A pipe that nobody reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("kind", [PlainPrinter, partial(JsonPrinter, folder=FOLDER)])
def test_a_reader_that_went_away_is_noticed_and_no_error(kind: Callable[..., PlainPrinter]) -> None:
    show_to = kind(Closed(), io.StringIO())
    show(good(), show_to)
    assert show_to.gone


PIPED = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
from tests.kit.scripts import ended, logging, script, started
from tests.kit.printing import good, show
from tui.run.printer import run_printer
history = good()
with run_printer(history.state(), {json}, Path()) as to:
    while not to.gone:
        show(history, to)
"""


@pytest.mark.parametrize("json", [False, True])
def test_head_ends_quietly(json: bool) -> None:
    """A real pipe whose reader closes it after one line."""
    script = PIPED.format(tests=str(Path(__file__).parents[3]), json=json)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert "Traceback" not in told
    assert "BrokenPipe" not in told


def test_neither_textual_nor_rich_is_needed_for_a_pipe() -> None:
    code = (
        "import sys, tui.run.printer; print([name for name in sys.modules if name.split('.')[0] "
        "in ('textual', 'rich', 'torch')])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_the_printer_follows_where_stdout_leads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uneven = RunState(plan(3))  # the default batch of 64 does not divide by 3
    with run_printer(uneven, False, FOLDER) as to:
        assert isinstance(to, PlainPrinter)
    with run_printer(uneven, True, FOLDER) as to:
        assert isinstance(to, JsonPrinter)
    assert "rankboard: batch size 64 does not divide by 3 ranks" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with run_printer(uneven, False, FOLDER) as to:
        assert isinstance(to, live.LivePrinter)


# On a terminal ------------------------------------------------------------------------------------


def terminal(width: int = 80, height: int = 24) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=width,
        height=height,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=None,
    )


def drawn(state: RunState, width: int = 80, height: int = 24) -> list[str]:
    console = terminal(width, height)
    console.print(live.picture(state, height, state.now))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_the_picture_shows_the_run_and_its_ranks() -> None:
    lines = drawn(good().state())
    assert "step 40/40" in lines[0]
    assert lines[1].split() == [
        "rank",
        "host",
        "phase",
        "epoch",
        "step",
        "loss",
        "acc",
        "per",
        "step",
        "sync",
        "CPU",
        "memory",
    ]
    assert lines[2].split()[:7] == ["0", "node1", "finished", "4", "40", "0.0681", "0.0%"]
    assert max(map(len, lines)) <= 80


def test_the_picture_shows_gpus_where_there_are_some() -> None:
    history = History(plan(2)).training(steps=1, device="cuda:0")
    lines = drawn(history.rank(1, GpuSample(1, 97.0, 1, 2)).state())
    assert lines[1].split()[-1] == "GPU"
    assert [line.split()[-1] for line in lines[2:4]] == ["-", "97%"]


def test_the_picture_before_the_start() -> None:
    state = History(plan(2)).session(HostPhaseChanged(1, "connecting")).state()
    assert drawn(state)[0].rstrip() == "starting 0 s  node1 waiting 0 s, node2 connecting 0 s"


def test_the_picture_tells_for_how_long_a_rank_has_been_in_a_phase_of_its_start() -> None:
    history = History(plan(2)).rank(0, Launched((0,)), Entered(0, "loading"))
    state = history.say(1, Launched((1,)), after=7.0).state()
    assert drawn(state)[2].split()[:5] == ["0", "node1", "loading", "7", "s"]
    assert drawn(state)[3].split()[:5] == ["1", "node2", "importing", "0", "s"]


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (40, 10), (80, 24), (200, 60)], ids=str)
def test_the_picture_fits_any_terminal(size: tuple[int, int]) -> None:
    width, height = size
    state = History(plan(16, slots=8)).training(steps=1).state()
    lines = drawn(state, width, height)
    assert all(len(line) <= width for line in lines)
    if width >= 80:
        assert len(lines) < height
        assert ("more" in lines[-1]) == (height < 128)


def test_the_end_on_a_terminal() -> None:
    console = terminal()
    with live.live_printer(console) as to:
        show(failed(), to)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "[rank 1] ValueError: bad batch" in text
    end = text[text.rindex("cause:") :]
    assert end.startswith("cause: node2, rank 1: ValueError: bad batch at step 12; rank 0 followed")
    assert end.index("taken down") < end.index("iter 2-") < end.index("failed after")


def test_text_of_ranks_is_no_markup_and_a_flood_is_cut() -> None:
    history = History(plan(1)).rank(0, said(0, "[bold red]as it is[/] :smile:", "stdout"))
    history.rank(0, said(0, "\n".join(f"line {number}" for number in range(1_000)), "stdout"))
    history.closed()
    console = terminal()
    with live.live_printer(console) as to:
        show(history, to, size=1)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "[rank 0] [bold red]as it is[/] :smile:" in text
    assert "(800 lines not shown; the run directory has them)" in text
    assert "line 799\n" not in text
    assert "line 800\n" in text


def test_a_run_left_alone_has_an_end_too() -> None:
    state = History(plan(1)).training(steps=2).state()
    assert outcome.verdict_line(state) == "left after 0 s; the run may still be live"
    assert outcome.describe_cause(state) == []


def test_the_end_of_a_rank_that_a_restart_leaves_out_is_told() -> None:
    history = History(plan(2)).training(steps=2)
    state, narration = history.state(), Narration()
    for batch in ([Exited(1, 1)], [Restarted((0,), "node2 was lost")]):
        history.records.clear()
        for record in history.session(*batch).records:
            apply_record(state, record)
        lines = [*narration.lines(history.records, state)]
    assert lines[0] == "rank 1 ended: exit code 1"


def test_a_lost_host_in_a_training_run() -> None:
    history = (
        History(plan(2))
        .training(steps=2)
        .session(HostLost(1, "no sign of life for 60 s", True))
        .rank(0, Exited(0, -15, "SIGTERM", True))
    )
    history.closed()
    err = printed(history, PlainPrinter)[1]
    assert "cause: node2: host lost: no sign of life for 60 s; rank 1 followed" in err
    assert err.endswith("rankboard: lost node2 after 0 s\n")


def test_a_run_of_which_only_records_are_lost_has_lost_no_host() -> None:
    history = History(plan(2)).training(steps=2).done(0)
    history.say(0, AgentEnded(EndReason.ALL_ENDED))
    history.say(1, RecordsDropped(4, 9), AgentEnded(EndReason.ALL_ENDED))
    history.closed()
    err = printed(history, PlainPrinter)[1]
    assert "cause: node2: records are missing that say how rank 1 ended" in err
    assert err.endswith("rankboard: lost records of node2 after 0 s\n")


# A user's own program -----------------------------------------------------------------------------


def test_the_table_of_a_program_has_the_columns_that_tell_something() -> None:
    history = ended(logging(started(script()), 3, range(1, 30), 0.5))
    history.closed()
    out, err = printed(history, PlainPrinter)
    head, _, *rows = (line for line in out.splitlines() if "|" in line or "-+-" in line)
    cells = [[cell.strip() for cell in row.split("|")] for row in (head, *rows)]
    assert cells[0] == ["host", "rank", "iter 2-29", "per step", "loss"]
    assert cells[1] == ["node1", "0", "-", "-", "-"]
    assert cells[4] == ["node2", "3", "500 ms", "500 ms", "3.4483"]
    assert cells[5][0] == "all", "the row of shares is left out"
    assert "read as: " in err
    assert "not read" not in err


def test_a_program_of_which_nothing_is_seen() -> None:
    history = ended(started(script()))
    history.closed()
    out, err = printed(history, PlainPrinter)
    assert out == ""
    assert (
        "rankboard: the program ended with exit code 0, and no step was seen; it printed nothing\n"
        in err
    )
    assert err.endswith("rankboard: finished in 0 s; no step was seen\n")
    verdict = judge_ended_run(history.state(), VerdictKeys(), is_brief=True)
    assert verdict.title == "finished in 0 s; no step was seen"
    assert "no step was seen; it printed nothing" in str(verdict.reasons[0])


def test_while_a_program_shows_nothing_it_is_said_once_why() -> None:
    history = started(script())
    for _ in range(round(2 * SOON)):
        history.say(0, HostSample((10.0,), 1, 2), after=1.0)
    err = printed(history, PlainPrinter)[1]
    told = "rankboard sees no steps and no values: torch is not watched, and no line has numbers"
    assert err.count(told) == 1


def watching(steps: int, seconds: float) -> History:
    """A program that prints nothing, of which the watch tells a step of two each second."""
    history = started(script(watch=True))
    for step in range(1, steps + 1):
        for rank in range(4):
            history.rank(rank, seen(rank, step, 2.0, compute=0.3, sync=0.2))
        history.now += seconds
    return history


@pytest.mark.parametrize(
    ("history", "told"),
    [
        (watching(40, 1.0), ["step 10, loss 2.0000, 500 ms/step, sync 40%", "step 20", "step 30"]),
        (logging(started(script()), 3, range(1, 40), 1.0), []),
    ],
    ids=["silent", "prints its steps"],
)
def test_of_a_program_that_prints_no_steps_it_is_said_now_and_then_how_far_it_is(
    history: History, told: list[str]
) -> None:
    state, expand = RunState(history.plan), expander(history.plan)
    now = START
    progress = ProgressLines(lambda: now)
    lines: list[str] = []
    for record in history.records:
        now = record.time
        for one in expand(record):
            apply_record(state, one)
        printed = isinstance(record.event, OutputText) and not record.event.text.startswith(PREFIX)
        lines += progress.lines(state, printed=printed)
    assert [one.startswith(two) for one, two in zip(lines, told, strict=True)] == [True] * len(told)


def test_how_far_a_program_is_leaves_out_what_is_not_known() -> None:
    history = started(script()).rank(3, StepFinished(3, 0, 7, 0.5, math.nan))
    state = history.state()
    assert progress_text(state, state.now) == "step 7, loss 0.5000"


def test_it_is_said_that_torch_is_watched() -> None:
    _, err = printed(watching(2, 0.1), PlainPrinter)
    assert err.count("rankboard: counting the steps of torch's optimiser; ") == 1
    _, err = printed(logging(started(script()), 3, range(1, 40), 1.0), PlainPrinter)
    assert "counting the steps" not in err
    assert "rankboard: read as:" in err


def test_how_to_accept_a_key_is_said_once_where_the_cause_says_it_of_all_hosts() -> None:
    said = Cause(
        "h1", -1, "h1 and h2: its host key is unknown:\nrankboard trust --all", names_hosts=True
    )
    assert outcome.repeats_cause("rankboard trust h1", said)
    assert not outcome.repeats_cause(
        "rankboard trust h1", Cause("h3", -1, "h3: no route to the host", names_hosts=True)
    )
    assert not outcome.repeats_cause("rankboard trust h1", None)


def test_of_a_run_that_is_left_it_is_said_that_nothing_is_sent_any_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(plan(1)).training(3)
    notified = Launcher(Transports(), tmp_path, notifier=Notifier("true"))
    front.finish_notifications(notified, history.state())
    assert capsys.readouterr().err == ""
    left = history.session(Detached()).state()
    front.finish_notifications(notified, left)
    assert capsys.readouterr().err == f"rankboard: {front.UNHEARD}\n"
    front.finish_notifications(replace(notified, notifier=None), left)
    assert capsys.readouterr().err == ""


def stopped_without_node2() -> RunState:
    """The end of a run that was stopped while one of its hosts did not answer."""
    history = History(plan(2)).training(3)
    history.session(Stopping("enough", True), HostLost(1, "node2: not heard", reached=True))
    return history.say(0, AgentEnded(EndReason.CLOSED)).closed()


def repeated(state: RunState) -> str:
    return (
        "rankboard: ranks may still run on node2: once it answers, repeat rankboard stop "
        f"{state.plan.run}"
    )


@pytest.mark.parametrize("is_quiet", [True, False])
def test_the_last_line_says_what_to_repeat_where_ranks_may_still_run(
    is_quiet: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = stopped_without_node2()
    session: Any = SimpleNamespace(
        state=state, plan=state.plan, batches=lambda: iter(()), detached=False, cut_off=False
    )
    launcher = Launcher(Transports(), tmp_path)
    code = front._print_session(launcher, session, front.LineOptions(quiet=is_quiet), Watched(-1))
    assert code == Verdict.STOPPED.value
    lines = capsys.readouterr().err.splitlines()
    assert (lines[-1] == repeated(state)) is not is_quiet
    assert any(", except perhaps on node2" in line for line in lines)


def test_the_dashboard_leaves_the_same_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = stopped_without_node2()
    app = SimpleNamespace(runs=SimpleNamespace(states=[state]), show=lambda: None, exit_code=130)
    monkeypatch.setattr(front, "check_terminal", lambda: None)
    monkeypatch.setattr("tui.app.app.RankboardApp", lambda *_: app)
    hosts = Cluster("a-run", state.plan.hosts)
    assert front.show_dashboard(Launcher(Transports(), tmp_path), hosts, hosts, Job()) == 130
    assert capsys.readouterr().err.splitlines()[-1] == repeated(state)


def test_the_command_of_a_cause_stands_on_a_line_of_its_own() -> None:
    cause = Cause("h1", -1, "its host key is unknown, then accept it:\nrankboard trust h1")
    lines = outcome.cause_lines(cause, plan(1), [])
    assert "rankboard trust h1" in lines
