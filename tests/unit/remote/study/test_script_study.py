"""Studies of a user's own program: its arguments are axes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from remote.events import SessionClosed
from remote.plan.plan import Script
from remote.study import estimate
from remote.study.folder import RunBegun, RunEnded, StudyCall, StudyFolder, TrialOutcome
from remote.study.measurement import MissingMetric, read_value
from remote.study.progress import StudyProgress
from remote.study.start_study import (
    find_recovered_runs,
    hold_study,
    parse_call,
    read_progress,
    result_settings,
)
from remote.study.study import StudyError
from remote.study.study_file import parse_study
from tests.kit.histories import History, plan
from tests.kit.recorded import recorded
from training.wire.events import ScriptMetrics

TEN_LINES = """
title = "Batch size"
repetitions = 2
[base]
script = "train.py --batch-size {batch_size} --name 'a b' --rank ${local_rank}"
[axes]
batch_size = [64, 256]
nodes = [1, 2]
"""


def mistakes(text: str, **given: object) -> str:
    with pytest.raises(StudyError) as error:
        parse_study("mine", text, given)
    return str(error.value)


def test_arguments_are_axes() -> None:
    study = parse_study("mine", TEN_LINES)
    assert [(cell.key, cell.place.nodes) for cell in study.cells] == [
        ("batch_size=64 nodes=1", 1),
        ("batch_size=64 nodes=2", 2),
        ("batch_size=256 nodes=1", 1),
        ("batch_size=256 nodes=2", 2),
    ]
    # what torchrun replaces stays
    words = ("train.py", "--batch-size", "64", "--name", "a b", "--rank", "${local_rank}")
    assert study.cells[0].work == Script(words)
    assert study.is_of_script
    assert study.measured == "seconds per step"
    assert result_settings(study.cells[0])["script"] == (
        "train.py --batch-size 64 --name 'a b' --rank '${local_rank}'"
    )


def test_a_value_of_base_holds_for_all_cells_that_have_no_other() -> None:
    study = parse_study(
        "mine",
        """
        [base]
        script = "train.py --lr {lr} --model {model}"
        lr = 0.1
        processes = 2
        [axes]
        size = [{ label = "small", model = "a" }, { label = "big", model = "b", lr = 0.01 }]
        """,
    )
    assert [cell.work.words[2:] for cell in study.cells if isinstance(cell.work, Script)] == [
        ("0.1", "--model", "a"),
        ("0.01", "--model", "b"),
    ]
    assert {cell.place.processes for cell in study.cells} == {2}


def test_a_seed_is_that_of_the_repetition_unless_the_study_varies_it() -> None:
    base = '[base]\nscript = "a.py {seed}"\n[axes]\n'
    of_its_own = parse_study("mine", base + "nodes = [1]").block(2)[0].work
    varied = parse_study("mine", base + "seed = [7]").block(2)[0].work
    assert (of_its_own, varied) == (Script(("a.py", "2")), Script(("a.py", "7")))


def test_an_estimate_rests_on_repetitions_whatever_their_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = 'repetitions = 2\n[base]\nscript = "a.py --lr {lr} --seed={seed}"\n'
    study = parse_study("mine", base + "[axes]\nlr = [1.5]\n")
    found = {
        "like": (["a.py", "--lr", "1.5", "--seed=31"], 30.0),
        "other": (["a.py", "--lr", "115", "--seed=31"], 1e6),
        "longer": (["a.py", "--lr", "1.5", "--seed=31", "-x"], 1e6),
        "forged": ([5, None], 1e6),
        "wrong": (5, 1e6),
    }
    summaries = {
        name: {"verdict": "finished", "script": words, "ranks": [{}], "elapsed": seconds}
        for name, (words, seconds) in found.items()
    }
    monkeypatch.setattr("remote.study.estimate.recorded", lambda _: list(map(Path, found)))
    monkeypatch.setattr("remote.study.estimate.summarized", lambda folder: summaries[folder.name])
    text = estimate.estimate_text(StudyProgress(study), tmp_path)
    assert text.startswith("2 runs, about 1:00 by runs so far")


def test_placeholders_and_values_belong_together() -> None:
    told = mistakes(
        '[base]\nscript = "train.py --lr {lr} --batch {batch_size}"\n'
        "[axes]\nbatchsize = [1, 2]\nmomentum = [0.9]\n"
    )
    assert told.splitlines() == [
        "mine.toml: line 2: {lr} has no values: write lr = [1, 2] below [axes], or lr = 1 below "
        "[base]",
        "mine.toml: line 2: {batch_size} has no values: write batch_size = [1, 2] below [axes], "
        "or batch_size = 1 below [base]",
        "mine.toml: line 4: batchsize is not in the script: did you mean 'batch_size'?",
        "mine.toml: line 5: momentum is not in the script: write --momentum {momentum} into it",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[base]\nscript = 3", 'line 2: script = 3: write script = "train.py --lr {lr}"'),
        ("[base]\nlr = 3", "line 1: [base] has no script: write script ="),
        ('[base]\nscript = "a \'"', "line 2: script: no closing quotation: write script ="),
        ('base = "a.py"', "line 1: write the keys of base below a line [base]"),
        ('[base]\nscript = "a.py"\n[job]\nlr = 1', "line 3: a study is of a [job] or of a script"),
        ('[base]\nscript = "a {x}"\n[axes]\nx = [[2]]', "line 4: x = [2]: write a text in quotes"),
        ('[base]\nscript = "a"\nnodes = 0', "line 3: nodes = 0: write a whole number from 1"),
        (
            '[base]\nscript = "a.py"\nmetric = "loss"',
            "line 3: metric belongs to the top of the file, above all [tables]; if it is an "
            "argument of the script, write --metric {metric} into it",
        ),
        (
            '[base]\nscript = "a.py"\nseed = 3',
            "line 3: seed belongs to the top of the file, above all [tables]",
        ),
        (
            '[base]\nscript = "a.py"\n[compare]\nmetric = "loss"',
            "line 4: metric belongs to the top of the file, above all [tables]",
        ),
        ('[job]\nmetric = "loss"', "line 2: metric belongs to the top of the file"),
        (
            'metric = "accuracy"\n[base]\nscript = "a.py"',
            "line 1: metric = 'accuracy': write one of step_seconds, elapsed, loss, metric:NAME",
        ),
        (
            'target = { loss = 1 }\n[base]\nscript = "a.py"',
            "line 1: a study of a script has no target: leave it out",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, said: str) -> None:
    assert said in mistakes(text)


def test_options_of_jobs_are_refused() -> None:
    told = mistakes('[base]\nscript = "a.py"', lr=0.1)
    assert told == "mine.toml: --lr: the study is of a script: leave the option out"


def test_what_is_compared() -> None:
    base = '[base]\nscript = "a.py"'
    summary = {
        "means": {"iterations_2_to_40": {"seconds": 0.5}},
        "training_seconds": 20,
        "ranks": [
            {"loss": 1.0, "metrics": {"bleu": 30.0}},
            {"loss": 2.0, "metrics": {}},
            {"loss": None, "metrics": {}},
        ],
    }
    values = {
        "step_seconds": 0.5,
        "elapsed": 20.0,
        "loss": 1.5,
        "metric:bleu": 30.0,
        "metric:rouge": None,
    }
    for metric, value in values.items():
        study = parse_study("mine", f'metric = "{metric}"\n{base}')
        assert read_value(study, summary) == value


def test_the_name_of_a_metric_says_which_value_is_best() -> None:
    base = '[base]\nscript = "a.py"'
    higher = {"metric:bleu": True, "metric:val_loss": False, "metric:perplexity": False}
    for metric, is_higher in (higher | {"loss": False}).items():
        assert parse_study("mine", f'metric = "{metric}"\n{base}').is_higher_better == is_higher


# The metric that a study compares -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ("Loss", 1.0),  # this very name
        ("loss", 0.5),  # also
        ("LOSS", None),  # which of the two?
        ("BLEU", 30.0),
        ("rouge", None),
    ],
)
def test_names_of_metrics_match_whatever_their_case(wanted: str, value: float | None) -> None:
    study = parse_study("mine", f'metric = "metric:{wanted}"\n[base]\nscript = "a.py"')
    ranks = [{"loss": 9.0, "metrics": {"Loss": 1.0, "loss": 0.5}}, {"metrics": {"bleu": 30.0}}]
    assert read_value(study, {"ranks": ranks}) == value


def test_the_loss_of_a_script_is_one_of_its_metrics() -> None:
    study = parse_study("mine", 'metric = "metric:Loss"\n[base]\nscript = "a.py"')
    ranks = [{"loss": 1.0, "metrics": {"bleu": 3.0}}, {"loss": 2.0, "metrics": {}}]
    assert read_value(study, {"ranks": ranks}) == 1.5


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        (
            MissingMetric("metric:val_los", "val_los", ("val_loss", "loss")),
            "the run has no val_los; it has val_loss, loss: did you mean 'val_loss'?",
        ),
        (MissingMetric("metric:x", "x", ()), "the run has no x, nor any other metric"),
        (
            MissingMetric("metric:x", "x", tuple("abcdefghijkl")),
            "the run has no x; it has a, b, c, d, e, f, g, h, i, j and 2 more",
        ),
        (MissingMetric("metric:x", "x", ("a",), "loss is NaN"), "the run has no x: loss is NaN"),
        (
            MissingMetric("step_seconds", "seconds per step", ("a",)),
            "the run has no seconds per step",
        ),
    ],
)
def test_what_a_run_lacks_is_said_with_what_it_has(lacks: MissingMetric, said: str) -> None:
    assert lacks.text() == said


ONE_METRIC = """
metric = "metric:{}"
repetitions = 2
[base]
script = "a.py {{lr}}"
[axes]
lr = [1, 2]
"""


@pytest.fixture
def lacking(tmp_path: Path) -> StudyFolder:
    """A study that stopped after its first run, which has `bleu`, and not what it was to have."""
    folder = StudyFolder.of(tmp_path, "mine")
    before = StudyCall(ONE_METRIC.format("blue"), {}, {}, quick=False)
    with hold_study(folder, before, new=False):
        pass
    trial = parse_call("mine", before).trials()[0]
    of = History(replace(plan(1), run="first", work=trial.work)).training()
    of.rank(0, ScriptMetrics(0, 1, 0.0, (("bleu", 30.0),)))
    recorded(tmp_path, of.done(0).session(SessionClosed()))
    lacks = RunEnded(trial.key, "first", TrialOutcome.FAILED, cause="no blue", lacks="metric:blue")
    folder.write(RunBegun(trial.key, "first"))
    folder.write(lacks)
    return folder


def test_a_run_that_only_lacked_the_metric_counts_once_that_is_corrected(
    lacking: StudyFolder,
) -> None:
    assert (
        find_recovered_runs(lacking, StudyCall(ONE_METRIC.format("blue"), {}, {}, quick=False))
        == []
    )
    corrected = StudyCall(ONE_METRIC.format("Bleu"), {}, {}, quick=False)
    [end] = find_recovered_runs(lacking, corrected)
    assert (end.run, end.outcome, end.value, end.cause, end.lacks) == (
        *("first", TrialOutcome.COUNTED, 30.0),
        *("", ""),
    )
    # Nothing is written by looking.
    assert read_progress(lacking, parse_call("mine", corrected)).counted_runs == []
    with hold_study(lacking, corrected, new=False):
        pass
    [counted] = read_progress(lacking, parse_call("mine", corrected)).counted_runs
    assert counted.run == "first"
    assert find_recovered_runs(lacking, corrected) == []


@pytest.mark.parametrize(
    "changed",
    [
        StudyCall(ONE_METRIC.format("bleu").replace("a.py", "b.py"), {}, {}, quick=False),
        StudyCall(
            ONE_METRIC.format("bleu").replace("[axes]", "processes = 2\n[axes]"), {}, {}, False
        ),
        StudyCall(ONE_METRIC.format("bleu").replace("[1, 2]", "[3, 4]"), {}, {}, quick=False),
        StudyCall(ONE_METRIC.format("bleu"), {}, {"local": 4}, quick=False),
    ],
)
def test_a_run_of_other_settings_or_hosts_does_not_count(
    lacking: StudyFolder, changed: StudyCall
) -> None:
    assert find_recovered_runs(lacking, changed) == []


def test_a_run_that_is_gone_or_was_changed_does_not_count(lacking: StudyFolder) -> None:
    corrected = StudyCall(ONE_METRIC.format("bleu"), {}, {}, quick=False)
    summary = lacking.path.parent / "first" / "summary.json"
    for text in ("", "[]", '{"verdict": "finished"}', '{"verdict": "finished", "ranks": [3]}'):
        summary.write_text(text)
        assert find_recovered_runs(lacking, corrected) == []
    summary.write_text('{"verdict": "finished", "ranks": [{"metrics": {"bleu": "x"}}]}')
    assert find_recovered_runs(lacking, corrected) == []
    shutil.rmtree(summary.parent)
    assert find_recovered_runs(lacking, corrected) == []
