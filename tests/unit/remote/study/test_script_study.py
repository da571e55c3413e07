"""Studies of a user's own program: its arguments are axes."""

from __future__ import annotations

import pytest

from remote.plan.plan import Script
from remote.study.measurement import describe_others, read_value
from remote.study.start_study import (
    result_settings,
)
from remote.study.study import StudyError
from remote.study.study_file import parse_study

TEN_LINES = """
title = "Batch size"
repetitions = 2
[base]
script = "train.py --batch-size {batch_size} --name 'a b' --rank ${local_rank} --of {world_size}"
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
    # What each rank has its own value for stays.
    words = ("train.py", "--batch-size", "64", "--name", "a b", "--rank", "${local_rank}")
    assert study.cells[0].work == Script((*words, "--of", "{world_size}"))
    assert study.is_of_script
    assert study.measured == "seconds per step"
    assert result_settings(study.cells[0])["script"] == (
        "train.py --batch-size 64 --name 'a b' --rank '${local_rank}' --of '{world_size}'"
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


def test_a_command_before_the_ranks_has_the_values_of_its_cell() -> None:
    base = '[base]\nscript = "a.py {lr}"\nbefore = "mkdir -p out-{lr}-{seed}-{nodes}-{host}"\n'
    study = parse_study("mine", f"{base}[axes]\nlr = [1, 2]\nnodes = [3]")
    work = study.block(2)[0].work
    assert isinstance(work, Script)
    assert work.before in ("mkdir -p out-1-2-3-{host}", "mkdir -p out-2-2-3-{host}")
    assert result_settings(study.cells[0])["before"] == "mkdir -p out-1-{seed}-3-{host}"
    assert mistakes('[base]\nscript = "a.py"\nbefore = 3') == (
        'mine.toml: line 3: before = 3: write before = "mkdir -p output"'
    )


def test_ranks_are_an_axis() -> None:
    text = """
        [base]
        script = "a.py -n {nodes} -p {processes} -w {ranks} -r {rank} --of {world_size}"
        [axes]
        ranks = [1, 4, 6, 8]
        """
    cells = parse_study("mine", text, num_hosts=4).cells
    # As many of the hosts as have equal shares.
    assert [(cell.place.nodes, cell.place.processes) for cell in cells] == [
        (1, 1),
        (4, 1),
        (3, 2),
        (4, 2),
    ]
    [*_, last_cell] = cells
    assert isinstance(last_cell.work, Script)
    assert " ".join(last_cell.work.words) == "a.py -n 4 -p 2 -w 8 -r {rank} --of {world_size}"


def test_ranks_are_shared_by_the_hosts_that_are_named() -> None:
    base = '[base]\nscript = "a.py"\n'
    on_two = parse_study("mine", f"{base}nodes = 2\n[axes]\nranks = [2, 4]", num_hosts=4).cells
    in_twos = parse_study("mine", f"{base}processes = 2\n[axes]\nranks = [2, 6]").cells
    assert [(cell.place.nodes, cell.place.processes) for cell in (*on_two, *in_twos)] == [
        (2, 1),
        (2, 2),
        (1, 2),
        (3, 2),
    ]
    assert mistakes(f"{base}nodes = 2\n[axes]\nranks = [3]") == (
        "mine.toml: line 5: ranks = 3 is the number of all ranks, but nodes = 2 with "
        "processes = 1 each has 2: leave one of them out"
    )
    assert mistakes(f"{base}[axes]\nworld_size = [2, 4]") == (
        "mine.toml: line 4: world_size is a result: write ranks = … instead"
    )


def test_a_seed_is_that_of_the_repetition_unless_the_study_varies_it() -> None:
    base = '[base]\nscript = "a.py {seed}"\n[axes]\n'
    of_its_own = parse_study("mine", base + "nodes = [1]").block(2)[0].work
    varied = parse_study("mine", base + "seed = [7]").block(2)[0].work
    assert (of_its_own, varied) == (Script(("a.py", "2")), Script(("a.py", "7")))


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
        "training_loss": 1.4,
        "ranks": [
            {"loss": 1.0, "metrics": {"bleu": 30.0}},
            {"loss": 2.0, "metrics": {}},
            {"loss": None, "metrics": {}},
        ],
    }
    values = {
        "step_seconds": 0.5,
        "elapsed": 20.0,
        "loss": 1.4,
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
    assert read_value(study, {"training_loss": 1.4, "ranks": ranks}) == 1.4


@pytest.mark.parametrize(
    ("name", "names", "said"),
    [
        (
            "val_los",
            ("val_loss", "loss"),
            "; it has val_loss and loss: did you mean 'val_loss'?",
        ),
        ("x", (), ", nor any other metric"),
        ("x", tuple("abcdefghijkl"), "; it has a, b, c, d, e, f, g, h, i and 3 more"),
    ],
)
def test_what_a_run_lacks_is_said_with_what_it_has(
    name: str, names: tuple[str, ...], said: str
) -> None:
    assert describe_others(name, names) == said
