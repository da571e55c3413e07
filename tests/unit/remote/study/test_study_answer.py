"""What the answer of a study calls the fastest, how it names a cell that takes no part in an axis,
and what it makes of repetitions that are identical."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from remote.study.conclusion import (
    answer_text,
    comparison_text,
    conclusion_lines,
    effect_lines,
)
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.progress import StudyProgress
from remote.study.results import StudyResult, compute_results
from remote.study.study import Study, StudyError
from remote.study.study_file import parse_study, read_bundled_studies
from remote.study.wording import cell_name, shown_key
from tui.study.cell_table import make_cell_table


def measure(study: Study, values: Mapping[str, Sequence[float]]) -> StudyResult:
    """The results of a study of which each cell has these values."""
    entries = [
        RunEnded(f"{key} #{number}", f"run-{key}-{number}", TrialOutcome.COUNTED, value)
        for key, several in values.items()
        for number, value in enumerate(several, start=1)
    ]
    return compute_results(StudyProgress.of(study, entries))


def noisy(value: float) -> list[float]:
    return [value, value * 1.01, value * 0.99]


NODES = """
repetitions = 3
[job]
model = "lenet5"
dataset = "digits"
[axes]
method = [
    { label = "gather/scatter", sync = "gather_scatter", nodes = 4 },
    { label = "ring", sync = "ring", nodes = 4 },
]
[[cell]]
label = "one node"
sync = "none"
nodes = 1
[compare]
baseline = { method = "one node" }
"""


@pytest.mark.parametrize(
    ("one_node", "expected"),
    [(0.5, "the fastest on several nodes, ring, is 0.5 times"), (2.0, "the fastest, ring, is 2 ")],
)
def test_nothing_is_called_the_fastest_that_is_slower_than_one_node(
    one_node: float, expected: str
) -> None:
    values = {
        "method=gather/scatter": noisy(4.0),
        "method=ring": noisy(1.0)[::-1],
        "method=one node": noisy(one_node),
    }
    answer = answer_text(measure(parse_study("nodes", NODES), values))
    assert expected in answer
    assert answer.endswith(" as fast as one node")
    first_clause = "one node is fastest: " if one_node < 1 else "ring is fastest: "
    assert answer.startswith(first_clause)


WAYS = read_bundled_studies()["four-ways"]


@pytest.mark.parametrize(
    ("ddp", "expected"),
    [
        (
            1.0,
            r"ddp was fastest as measured: 3 times \(.*\) as fast as gather/scatter and 2 times ",
        ),
        (6.0, r"gather/scatter was fastest as measured: 0\.667 times "),
    ],
)
def test_the_best_of_what_an_assignment_asks_for_is_named_too(ddp: float, expected: str) -> None:
    """The study of the course has a ring as well, which is the fastest of all."""
    values = {
        "method=gather/scatter": noisy(3.0),
        "method=all_reduce": noisy(4.0)[::-1],
        "method=ddp": noisy(ddp),
        "method=all_reduce, overlapped": noisy(0.9),
        "method=ring": noisy(0.5)[::-1],
        "method=one node": noisy(2.0),
    }
    study = parse_study("four-ways", WAYS)
    answer, best_asked_for, *_ = conclusion_lines(measure(study, values))
    assert answer.startswith("ring is fastest")
    assert re.match(f"of gather/scatter, all_reduce and ddp, {expected}", best_asked_for)
    assert best_asked_for.endswith(" as fast as one node")
    del values["method=ddp"]  # then nobody knows
    assert effect_lines(measure(study, values)) == []


def test_values_to_choose_among_are_those_of_the_axis() -> None:
    with pytest.raises(StudyError, match=r"among = 'dpp': write one of .*did you mean 'ddp'"):
        parse_study("four-ways", WAYS.replace('"all_reduce", "ddp"]', '"dpp"]'))
    with pytest.raises(StudyError, match="among = 'ddp': write values of the axis in a list"):
        parse_study("four-ways", re.sub("among = .*", 'among = "ddp"', WAYS))


BATCHES = """
repetitions = 3
[job]
model = "lenet5"
dataset = "digits"
nodes = 2
[axes]
method = [{ label = "ddp", sync = "ddp" }, { label = "ring", sync = "ring" }]
batch_size = [64, 256]
[[cell]]
label = "one node"
sync = "none"
nodes = 1
[compare]
baseline = { method = "one node" }
"""
TIMES = {
    "method=ddp batch_size=64": noisy(1.0),
    "method=ddp batch_size=256": noisy(3.2)[::-1],
    "method=ring batch_size=64": noisy(1.2),
    "method=ring batch_size=256": noisy(3.6)[::-1],
    "method=one node batch_size=one node": noisy(1.0)[::-1],
}


def test_a_cell_outside_of_an_axis_says_which_batch_it_has() -> None:
    study = parse_study("batches", BATCHES)
    result = measure(study, TIMES)
    lone_cell = study.cells[-1]
    assert cell_name(study, lone_cell) == "one node (batch 64)"
    assert shown_key(study, lone_cell) == "method=one node batch_size=64"
    assert make_cell_table(result).rows[-1][:2] == ("one node", "64")
    # Its key stays, by which the journals of studies name its runs.
    assert lone_cell.key == "method=one node batch_size=one node"
    assert [cell_name(study, cell) for cell in study.cells[:2]] == [
        "method=ddp batch_size=64",
        "method=ddp batch_size=256",
    ]


def test_a_sentence_on_two_batches_says_so() -> None:
    answer = answer_text(measure(parse_study("batches", BATCHES), TIMES))
    assert re.search(
        r"; the fastest, method=ddp batch_size=256, is 1\.25 times \(.*\) as fast per sample "
        r"\(global batches 256 and 64\) as one node \(batch 64\)$",
        answer,
    )
    # Cells of one batch compare per step as per sample.
    assert "ring is" not in answer
    assert answer.count("per sample") == 1


def test_every_comparison_of_batches_says_so() -> None:
    text = BATCHES + 'axis = "batch_size"\nreference = "64"\n'
    study = parse_study("batches", text.replace("{ method = ", "{ batch_size = "))
    result = measure(study, TIMES)
    larger = result.cells[1]
    assert re.match(
        r"256 is 1\.25 times \(.*\) as fast per sample \(global batches 256 and 64\) as 64 at "
        "method=ddp$",
        comparison_text(study, larger),
    )
    assert "fast per sample (global batches 256 and 64) as 64" in answer_text(result)


def test_each_batch_may_have_one_node_of_its_own() -> None:
    """As docs/how-to/write-a-study.md says."""
    head, _ = BATCHES.split("[[cell]]")
    cell = '[[cell]]\nlabel = "one node"\nsync = "none"\nnodes = 1\nbatch_size = {}\n'
    compare = '[compare]\naxis = "method"\nreference = "one node"\n'
    study = parse_study("batches", head + cell.format(64) + cell.format(256) + compare)
    counterparts = [study.counterpart(cell) for cell in study.cells[:4]]
    assert [cell.key for cell in counterparts if cell] == [
        *("method=one node batch_size=64", "method=one node batch_size=256"),
    ] * 2
    values = {**TIMES, "method=one node batch_size=64": noisy(2.0)}
    values["method=one node batch_size=256"] = noisy(6.4)
    assert "per sample" not in answer_text(measure(study, values))


def test_cells_of_one_batch_need_no_name_of_it() -> None:
    study = parse_study("nodes", NODES)
    assert [cell_name(study, cell) for cell in study.cells] == [
        "gather/scatter",
        "ring",
        "one node",
    ]


SCRIPT = """
repetitions = 2
metric = "loss"
[base]
script = "train.py --lr {lr}"
[axes]
lr = [0.1, 0.2]
"""


@pytest.mark.parametrize(("script", "has_hint"), [("{lr}", True), ("{lr} --seed {seed}", False)])
def test_identical_repetitions_prove_nothing(script: str, has_hint: bool) -> None:
    study = parse_study("rates", SCRIPT.replace("{lr}", script))
    result = measure(study, {"lr=0.1": [0.0308, 0.0308], "lr=0.2": [0.1151, 0.1151]})
    lines = conclusion_lines(result)
    assert not any("95%" in line for line in lines)
    hint = ": {seed} in its command makes them differ" if has_hint else ""
    values = "the repetitions of each cell have identical values"
    end = f"{values}, so they show no more than one run of it{hint}"
    assert lines[0].startswith("as measured, 0.1 has the lowest training loss")
    assert lines[0].endswith(f"; {end}")
    assert comparison_text(study, result.cells[1]).endswith(end)
    assert make_cell_table(result).rows[1][-1] == "values are identical"


def test_repetitions_of_which_one_differs_are_compared() -> None:
    study = parse_study("rates", SCRIPT)
    values = {"lr=0.1": [0.0308, 0.0309], "lr=0.2": [0.1151, 0.1151]}
    answer = answer_text(measure(study, values))
    assert "identical" not in answer
    assert "95% sure" in answer


def test_one_run_of_each_cell_is_no_repetition() -> None:
    answer = answer_text(measure(parse_study("rates", SCRIPT), {"lr=0.1": [1.0], "lr=0.2": [2.0]}))
    assert "identical" not in answer
    assert answer.endswith("repeat it")


def test_identical_repetitions_while_a_cell_has_none() -> None:
    answer = answer_text(measure(parse_study("rates", SCRIPT), {"lr=0.2": [2.0, 2.0]}))
    assert answer == "best training loss: lr=0.2, 2.0000"
