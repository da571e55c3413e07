"""Studies: their files, the order of their runs, and what their journals say."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.lab.spec import LabSpec
from remote.plan.plan import PlanError
from remote.statistics.block_model import DRAWS, FEW_DRAWS
from remote.statistics.comparison import Comparisons, compare_cells
from remote.study import estimate
from remote.study import start_study as start
from remote.study.conclusion import (
    answer_text,
    comparison_text,
    conclusion_lines,
    effect_lines,
    guess_text,
)
from remote.study.folder import JOURNAL, RunBegun, RunEnded, StudyCall, StudyFolder, TrialOutcome
from remote.study.host_pool import HostPool
from remote.study.progress import (
    CellState,
    IntervalWidth,
    StudyProgress,
    next_trial,
    repeat_trial,
    unstable_cells,
)
from remote.study.results import compute_results
from remote.study.runner import LIMIT, StudyRunner
from remote.study.shortcomings import failure_lines, limit_lines
from remote.study.study import CellPlace, Study, StudyError, Trial
from remote.study.study_file import parse_study, read_bundled_studies, read_study_text
from remote.transport.warm import WarmTransport
from tests.kit.acted_study import acted_runner, finish
from training.job import Job
from training.wire import host_events, rank_events
from tui.study.cell_table import format_interval

TEXT = """
title = "Two ways"
repetitions = 3
limit = "10 min"
[job]
model = "lenet5"
steps = 20
every = 4
[axes]
nodes = [1, 2]
method = [
    { label = "alone", sync = "local_sgd" },
    { label = "together", sync = "all_reduce", granularity = "parameter" },
]
[[cell]]
label = "one"
sync = "none"
nodes = 1
[compare]
axis = "method"
reference = "together"
baseline = { method = "one" }
[quick]
repetitions = 1
job = { epochs = 2 }
"""


@pytest.fixture
def study() -> Study:
    return parse_study("two", TEXT)


def test_cells_are_the_product_and_more(study: Study) -> None:
    keys = [cell.key for cell in study.cells]
    assert keys == [
        "nodes=1 method=alone",
        "nodes=1 method=together",
        "nodes=2 method=alone",
        "nodes=2 method=together",
        "nodes=1 method=one",
    ]
    alone, together = study.cells[2:4]
    assert alone.job.sync_option == ("every=4",)  # an option of [job], for methods that have it
    assert together.job.sync_option == ("granularity=parameter",)
    assert together.place.ranks == 2
    assert study.counterpart(alone) == together
    assert study.counterpart(together) is None
    assert study.baseline == "nodes=1 method=one"


def test_quick_and_given_settings_override_the_job() -> None:
    quick = parse_study("two", TEXT, quick=True)
    assert quick.repetitions == 1
    assert (quick.cells[0].job.epochs, quick.cells[0].job.steps) == (2, None)
    given = parse_study("two", TEXT, {"dataset": "synthetic"}, quick=True)
    assert given.cells[0].job.dataset == "synthetic"


def test_every_block_has_each_cell_once_in_an_order_of_its_own(study: Study) -> None:
    orders = [[trial.cell.key for trial in study.block(number)] for number in range(1, 9)]
    assert {frozenset(order) for order in orders} == {frozenset(cell.key for cell in study.cells)}
    assert len(set(map(tuple, orders))) > 1
    assert study.trials() == parse_study("two", TEXT).trials()


def test_a_repetition_has_a_seed_of_its_own_which_all_cells_share(study: Study) -> None:
    seeds = [{trial.work.seed for trial in study.block(number)} for number in (1, 2)]
    assert seeds == [{42}, {43}]


MISTAKES = [
    (
        'title = "Two',
        'titel = "Two',
        "two.toml: line 2: unknown key 'titel': did you mean",
    ),
    ("steps = 20", "stepz = 20", "line 7: unknown setting 'stepz': did you mean 'steps'?"),
    ("steps = 20", 'steps = "x"', "line 7: steps = 'x': write a whole number"),
    ("steps = 20", "compile = 1", "line 7: compile = 1: write true or false"),
    ('"10 min"', '"10"', "line 4: limit = '10': write a time such as \"90 s\""),
    ("nodes = [1, 2]", "nodes = 2", "line 10: nodes = 2: write a list of its values: [1, 2]"),
    ("nodes = [1, 2]", "nodes = [1, 1]", "line 10: nodes: the value 1 is there twice"),
    ("nodes = [1, 2]", "nodes = [0]", "line 10: nodes = 0: write a whole number from 1"),
    (
        '"local_sgd"',
        '"local_sdg"',
        "line 12: sync = 'local_sdg': unknown sync method: did you mean 'local_sgd'?",
    ),
    ('"alone", sync', '"", sync', "write the settings, and a label in quotes"),
    ('reference = "together"', 'reference = "togeter"', "did you mean 'together'?"),
    (
        'axis = "method"',
        'axis = "methods"',
        "line 20: axis = 'methods': write one of nodes,",
    ),
    ('method = "one"', 'method = "ome"', "no cell has method = ome: write"),
    ('method = "one"', "nodes = 1", "3 cells have nodes = 1: write values that one cell has"),
    (
        "steps = 20",
        "learning_rate = 1",
        "line 7: unknown setting 'learning_rate': did you mean 'lr'",
    ),
    (
        "steps = 20",
        "Batch-Size = 1",
        "line 7: unknown setting 'Batch_Size': did you mean 'batch_size'",
    ),
    (
        "steps = 20",
        'optimizer = "adam"',
        "the optimiser is SGD, with lr, momentum and weight_decay",
    ),
    (
        "steps = 20",
        'dataset = "minst"',
        "line 7: dataset = 'minst': unknown data set: did you mean 'mnist'?",
    ),
    ("steps = 20", "lr = -1", "line 7: lr = -1: must be at least 0"),
    ('model = "lenet5"', 'model = "lenet6"', "did you mean 'lenet5'?"),
    ("repetitions = 3", "repetitions = 0", "line 3: repetitions = 0: write a whole number from 1"),
    ("repetitions = 3", "target = { accuracy = 60 }", "write { accuracy = 0.6 }, a fraction"),
    ("[job]", "[job", "this is not TOML"),
    ('label = "one"\n', "", "a [[cell]] needs method = …, or a label = … for it"),
    ("repetitions = 1", "repeat = 1", "line 24: unknown key 'repeat'"),
    ("repetitions = 3", "metric = []", "metric = []: write one of step_seconds, elapsed"),
    ("[quick]", "[quick]\ncompare = 3", "write the keys of compare below a line [quick.compare]"),
    ("[quick]", "[quick]\nx = " + 5000 * "[", "this is not TOML"),
    ("steps = 20", "lr = 1" + 400 * "0", "write a number"),
    ("nodes = [1, 2]", "nodes = [5000]", "write a whole number from 1 to 4096"),
    ("nodes = [1, 2]", "every = [1, 4]", "every is not an option of sync = 'all_reduce'"),
    ("method =", '"a\\u001b" =', "write a name in one line"),
    ('"one"\n', '"\\u001b[2J"\n', "line 15: label = '\\x1b[2J': write a label in one line"),
    ('"one"\n', '""\n', "line 15: label = '': write a label in one line"),
    ("nodes = [1, 2]", 'data_dir = ["\\u001b[2J"]', "line 10: data_dir: { data_dir = '"),
]


@pytest.mark.parametrize(("text", "wrong", "message"), MISTAKES, ids=[one[1] for one in MISTAKES])
def test_mistakes_say_where_and_what_to_write(text: str, wrong: str, message: str) -> None:
    assert text in TEXT
    with pytest.raises(StudyError) as error:
        parse_study("two", TEXT.replace(text, wrong, 1))
    assert message in str(error.value)


@pytest.mark.parametrize("quick", [False, True])
def test_too_many_cells_are_refused_before_a_value_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    """Each value takes time, and a file may have millions."""
    monkeypatch.setattr(
        "remote.study.study_file.read_axes", lambda *_: pytest.fail("it reads values")
    )
    values = ", ".join(map(str, range(1_000)))
    table = "[quick.axes]" if quick else "[axes]"
    text = f"[axes]\nlr = [1, 2]\n{table.replace('[axes]', '')}\nbatch_size = [{values}]\n"
    with pytest.raises(StudyError) as error:
        parse_study("two", f"{text}[[cell]]\nlr = 3\nbatch_size = 3\n", quick=quick)
    assert str(error.value) == "two.toml: 2001 cells: write fewer values, at most 1000"


def test_all_mistakes_are_told_at_once() -> None:
    text = TEXT.replace("title", "titel", 1).replace("steps", "stepz", 1).replace("= 3", "= 0")
    with pytest.raises(StudyError) as error:
        parse_study("two", text)
    assert len(str(error.value).splitlines()) == 3


def test_mistakes_are_told_once_in_the_order_of_their_lines() -> None:
    text = TEXT.replace("steps = 20", 'steps = 0\ndataset = "minst"\nprecision = "fp8"')
    text = text.replace('"local_sgd"', '"local_sdg"').replace(
        '"together"\nbase', '"tigether"\nbase'
    )
    with pytest.raises(StudyError) as error:
        parse_study("two", text.replace("= 3", "= 0", 1).replace('"one" }', '"ane" }'))
    lines = [re.search(r"line (\d+)", line) for line in str(error.value).splitlines()]
    assert [int(line[1]) for line in lines if line] == [3, 7, 8, 9, 14, 23, 24]
    assert None not in lines


def test_what_is_wrong_with_several_cells_is_told_once() -> None:
    with pytest.raises(StudyError) as error:
        parse_study("two", TEXT.replace("steps = 20", "batch_size = 1"))
    assert str(error.value) == (
        "two.toml: nodes=2 method=alone and 1 more cell: --batch-size 1 is smaller than the 2 "
        "ranks that share it: give at least 2, or use fewer ranks"
    )


def test_cells_without_axes_are_no_study() -> None:
    with pytest.raises(StudyError, match="write the cells as values of an axis"):
        parse_study("two", '[[cell]]\nlabel = "one"\nsync = "none"\n')


def test_settings_may_have_dashes_everywhere() -> None:
    text = "[axes]\nbatch-size = [4, 8]\n[[cell]]\nbatch_size = 16\n"
    assert [cell.job.batch_size for cell in parse_study("two", text).cells] == [4, 8, 16]
    with pytest.raises(StudyError, match="--batch-size: the study varies batch_size"):
        parse_study("two", text, {"batch_size": 5})


def test_cells_that_do_not_say_on_how_many_hosts_they_run_run_on_all() -> None:
    text = (
        '[job]\nbatch_size = 2\n[axes]\nmethod = [{ sync = "ddp" }, { sync = "ring", nodes = 1 }]\n'
    )
    assert [cell.place.nodes for cell in parse_study("two", text, num_hosts=2).cells] == [2, 1]
    with pytest.raises(StudyError, match="method=ddp: --batch-size 2 is smaller than the 3 ranks"):
        parse_study("two", text, num_hosts=3)
    parse_study("two", text)  # nobody knows yet


def test_a_seed_that_a_study_varies_is_that_of_all_repetitions() -> None:
    study = parse_study("two", "repetitions = 2\n[axes]\nseed = [1, 2]\n")
    assert {(trial.cell.key, trial.work.seed) for trial in study.trials()} == {
        ("seed=1", 1),
        ("seed=2", 2),
    }


@pytest.mark.parametrize("name", [".toml", ".hidden.toml", "a\nb.toml"])
def test_a_file_gives_its_study_a_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXT)
    with pytest.raises(StudyError, match="give the file a name"):
        read_study_text(str(tmp_path / name))


def test_an_axis_is_not_overridden() -> None:
    with pytest.raises(StudyError, match="--sync: the study varies sync: leave the option out"):
        parse_study("two", TEXT, {"sync": "ring"})


@pytest.mark.parametrize("name", read_bundled_studies())
@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
def test_bundled_studies_are_sound(name: str, quick: bool) -> None:
    study = parse_study(name, read_bundled_studies()[name], quick=quick, num_hosts=4)
    assert study.question.endswith("?")
    assert any(study.counterpart(cell) for cell in study.cells)
    assert max(cell.place.nodes for cell in study.cells) <= 4
    places = HostPool(Cluster("here", tuple(_host(number) for number in range(4))))
    places.check(study)


def _host(number: int, transport: str = "local") -> Host:
    return Host(f"node{number}", f"10.0.0.{number + 1}", transport=transport)


def test_hosts_that_are_too_few_or_cannot_be_shaped_are_refused(study: Study) -> None:
    one = HostPool(Cluster("here", (_host(1),)))
    with pytest.raises(StudyError, match=r"two needs 2 hosts, and there is 1: .*--local 2"):
        one.check(study)


@pytest.mark.parametrize("num_hosts", [1, 2, 3, 4])
def test_the_study_of_the_course_runs_on_all_hosts_that_there_are(num_hosts: int) -> None:
    text = read_bundled_studies()["four-ways"]
    study = parse_study("four-ways", text, num_hosts=num_hosts)
    sizes = {cell.label("method"): cell.place.nodes for cell in study.cells}
    assert sizes.pop("one node") == 1
    assert set(sizes.values()) == {num_hosts}
    pool = HostPool(Cluster("here", tuple(_host(number) for number in range(num_hosts))))
    if num_hosts > 1:
        pool.check(study)
    else:
        with pytest.raises(StudyError, match="--local 4"):
            pool.check(study)


def test_on_hosts_of_a_file_links_and_cores_are_as_they_are() -> None:
    study = parse_study("link", read_bundled_studies()["link"])
    places = HostPool(Cluster("lab", tuple(_host(number, "ssh") for number in range(4))))
    found = places.fitted(study)
    assert {cell.label("link") for cell in found.cells} == {"as it is"}
    assert len(found.cells) == 4
    assert not any(cell.place.link for cell in found.cells)


def test_the_two_labs_used_last_stay_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, middle, slow = 10**9, 10**8, 10**7
    up: list[int] = []
    cooled: list[object] = []

    @contextmanager
    def lab(spec: LabSpec) -> Iterator[SimpleNamespace]:
        up.append(spec.rates[0])
        yield SimpleNamespace(hosts=(_host(1),), enter=spec.rates[0])
        up.remove(spec.rates[0])

    monkeypatch.setattr("remote.study.host_pool.Lab", SimpleNamespace(start=lab))
    monkeypatch.setattr("remote.study.host_pool.Transports", lambda hosts, enter: enter)
    monkeypatch.setattr(WarmTransport, "cool", lambda warm: cooled.append(warm._reach))
    with HostPool(Cluster("here", (_host(1),))) as places:
        for link in ("1gbit", "100mbit", "1gbit", "10mbit"):
            places.reach(CellPlace(1, 1, link, ""))
        assert (up, cooled) == ([fast, middle, slow], [middle])
    assert (up, cooled) == ([], [middle, slow, middle, fast])


def _progress(study: Study, values: dict[str, list[float]]) -> StudyProgress:
    entries = [
        RunEnded(f"{key} #{number}", f"run-{key}-{number}", TrialOutcome.COUNTED, value)
        for key, several in values.items()
        for number, value in enumerate(several, start=1)
    ]
    return StudyProgress.of(study, entries)


def test_each_run_that_is_missing_comes_next_and_no_other(study: Study) -> None:
    progress, made = StudyProgress(study), []
    while trial := next_trial(progress):
        made.append(trial)
        progress.apply(RunBegun(trial.key, "run"))
        progress.apply(RunEnded(trial.key, "run", TrialOutcome.COUNTED, 1.0))
    assert made == study.trials()


def test_a_failed_run_is_left_out_until_the_next_call(study: Study) -> None:
    first, second = study.trials()[:2]
    entries = [
        RunBegun(first.key, "run"),
        RunEnded(first.key, "run", TrialOutcome.FAILED, cause="no memory"),
    ]
    progress = StudyProgress(study)
    for entry in entries:
        progress.apply(entry)
    assert next_trial(progress) == second
    assert progress.cells[first.cell.key].state(3) is CellState.FAILED
    assert progress.cells[first.cell.key].cause == "no memory"
    assert next_trial(StudyProgress.of(study, entries)) == first


def test_an_interrupted_run_is_open_and_not_settled(study: Study) -> None:
    first = study.trials()[0]
    progress = StudyProgress.of(study, [RunBegun(first.key, "run")])
    assert progress.open == {first.key: "run"}
    assert next_trial(progress) == first
    progress.apply(RunEnded(first.key, "run", TrialOutcome.INTERRUPTED))
    assert not progress.open


def test_a_cell_that_varies_is_repeated_until_it_is_stable(study: Study) -> None:
    steady = {cell.key: [1.0, 1.0, 1.0] for cell in study.cells}
    assert _repeated(_progress(study, steady), _spread) is None
    wild = study.cells[1].key
    progress = _progress(study, steady | {wild: [1.0, 2.0, 1.0]})
    trial = _repeated(progress, _spread)
    assert trial is not None
    assert trial.key == f"{wild} #4"
    progress.apply(RunEnded(trial.key, "run", TrialOutcome.FAILED))
    assert _repeated(progress, _spread) is None


def _repeated(progress: StudyProgress, width: IntervalWidth) -> Trial | None:
    """The next run with --until-stable 10."""
    return next_trial(progress) or repeat_trial(progress, unstable_cells(progress, 0.1, width))


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def test_a_journal_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = StudyFolder.of(tmp_path, "two")
    folder.keep(StudyCall("", {}, {}, quick=False))
    (folder.path / "journal.jsonl").symlink_to("/dev/null")
    with pytest.raises(StudyError, match=r"journal\.jsonl: it is a link"):
        list(folder.entries())


def test_the_journal_is_read_back_without_a_torn_line(tmp_path: Path) -> None:
    folder = StudyFolder.of(tmp_path, "two")
    entries = [
        RunBegun("a #1", "run-1"),
        RunEnded("a #1", "run-1", TrialOutcome.COUNTED, 0.5, remarks=("shared",)),
        RunEnded("a #2", "run-2", TrialOutcome.FAILED, cause="no memory"),
    ]
    folder.keep(StudyCall("", {}, {}, quick=False))
    for entry in entries:
        folder.write(entry)
    with open(folder.path / JOURNAL, "a") as file:
        file.write(
            '{"event":"ended","trial":"a #3","run":"../x","outcome":"counted"}\n{"event":"beg'
        )
    assert list(folder.entries()) == entries


def test_a_study_is_held_by_one_process(tmp_path: Path) -> None:
    folder = StudyFolder.of(tmp_path, "two")
    call = StudyCall(TEXT, {}, {"local": 2}, False)
    with start.hold_study(folder, call, new=False):
        other = start.hold_study(folder, call, new=False)
        with pytest.raises(StudyError, match="two is running: process"), other:
            pass


def test_a_study_goes_on_as_it_was_called(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TEXT)
    folder, call = start.find_study(str(file), tmp_path, {"seed": 7}, {"local": 2}, quick=False)
    study = start.parse_call(folder.name, call)
    with start.hold_study(folder, call, new=False):
        pass
    _, again = start.find_study(str(file), tmp_path, {}, {}, quick=False)
    assert (again.given, again.places) == ({"seed": 7}, {"local": 2})
    _, by_name = start.find_study("two", tmp_path, {}, {}, quick=False)
    assert start.parse_call("two", by_name).cells == study.cells


def test_more_cells_and_repetitions_extend_a_study_and_other_settings_do_not(
    tmp_path: Path,
) -> None:
    folder = StudyFolder.of(tmp_path, "two")
    call = StudyCall(TEXT, {}, {"local": 2}, False)
    _make(folder, call)
    more = replace(call, text=TEXT.replace("[1, 2]", "[1, 2, 4]").replace("= 3", "= 5"))
    with start.hold_study(folder, more, new=False):
        pass
    other = replace(more, text=more.text.replace("steps = 20", "steps = 30"), places={"local": 4})
    with (
        pytest.raises(StudyError) as error,
        start.hold_study(folder, other, new=False),
    ):
        pass
    assert "changed: steps 20, now 30; hosts --local 2, now --local 4. 5 runs" in str(error.value)
    with start.hold_study(folder, other, new=True) as kept:
        assert {path.name for path in tmp_path.glob("two*.study")} == {"two.study", f"{kept}.study"}


def test_what_no_run_counts_of_may_change(tmp_path: Path) -> None:
    call = StudyCall(TEXT, {}, {"local": 2}, False, num_hosts=2)
    folder = _started(tmp_path, call)
    key = "nodes=2 method=alone #1"
    folder.write(RunBegun(key, "run-1"))
    folder.write(RunEnded(key, "run-1", TrialOutcome.FAILED, cause="no data"))
    other = replace(call, text=TEXT.replace("steps = 20", "steps = 30"), places={"local": 4})
    with start.hold_study(folder, other, new=False):
        pass
    assert folder.text() == other.text
    folder.write(RunBegun(key, "run-2"))  # nobody knows what becomes of that one
    with (
        pytest.raises(StudyError, match="steps 30, now 20; hosts --local 4, now --local 2"),
        start.hold_study(folder, call, new=False),
    ):
        pass
    folder.write(RunEnded(key, "run-2", TrialOutcome.COUNTED, 0.5))
    one = replace(other, text=other.text.replace('"all_reduce", gr', '"gather_scatter", gr'))
    with start.hold_study(folder, one, new=False):  # that cell has no run
        pass


def test_where_data_lie_is_no_change(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(TEXT)
    folder, call = start.find_study(str(file), tmp_path, {"seed": 7}, {"local": 2}, quick=False)
    with start.hold_study(folder, call, new=False):
        _make(folder, call)
    elsewhere = {"data_dir": "/data", "verify_data": False, "log_format": "reference"}
    _, again = start.find_study(str(file), tmp_path, elsewhere, {}, quick=False)
    assert again.given == {"seed": 7, **elsewhere}
    start.check_unchanged(folder, again)
    _, longer = start.find_study(str(file), tmp_path, {"epochs": 2}, {}, quick=False)
    with pytest.raises(StudyError, match="changed: epochs default, now 2; steps 20, now default"):
        start.check_unchanged(folder, longer)
    _, afresh = start.find_study(str(file), tmp_path, {"epochs": 2}, {}, quick=False, new=True)
    assert (afresh.given, afresh.places) == ({"epochs": 2}, {"local": 2})


def test_a_refused_change_names_the_command_that_makes_it(tmp_path: Path) -> None:
    """With all that was given at first, and with what this call gives."""
    file = tmp_path / "two.toml"
    file.write_text(TEXT)
    given = {"model": "lenet5", "dataset": "digits", "verify_data": False}
    places = {"hosts": "my hosts.toml", "nodes": 2}
    folder, call = start.find_study(str(file), tmp_path, given, places, quick=True)
    with start.hold_study(folder, call, new=False):
        folder.write(RunEnded("nodes=2 method=alone #1", "run", TrialOutcome.COUNTED, 0.5))
    _, other = start.find_study(str(file), tmp_path, {"batch_size": 96}, {}, quick=True)
    with pytest.raises(StudyError) as error:
        start.check_unchanged(folder, replace(other, other_options=("--run",)))
    assert str(error.value).splitlines()[-1] == (
        f"rankboard study {file} --new --quick --hosts 'my hosts.toml' --num-hosts 2 "
        "--model lenet5 --dataset digits --no-verify-data --batch-size 96 --run"
    )


LINKS = """
[job]
steps = 40
[axes]
link = ["10mbit", "1gbit"]
sync = ["ring", "ddp"]
"""


def test_a_study_of_links_on_hosts_of_a_file_keeps_its_settings(tmp_path: Path) -> None:
    call = StudyCall(LINKS, {}, {"hosts": "hosts.toml"}, False, num_hosts=2)
    folder = _started(tmp_path, call)
    folder.write(RunEnded("link=as it is sync=ring #1", "run", TrialOutcome.COUNTED, 0.5))
    assert [cell.key for cell in start.open_study(folder).cells] == [
        "link=as it is sync=ring",
        "link=as it is sync=ddp",
    ]
    start.check_unchanged(folder, call)
    with pytest.raises(StudyError, match="changed: steps 40, now 10"):
        start.check_unchanged(folder, replace(call, given={"steps": 10}))


def test_options_that_are_as_before_are_no_change_and_a_seed_of_a_cell_is(tmp_path: Path) -> None:
    text = '[axes]\nmethod = [{ label = "a", sync = "ring" }]\n'
    call = StudyCall(text, {}, {"local": 2}, False, num_hosts=2)
    folder = _started(tmp_path, call)
    folder.write(RunEnded("method=a #1", "run", TrialOutcome.COUNTED, 0.5))
    bucket = Job(sync="ring").sync_options().bucket_mb
    start.check_unchanged(
        folder, replace(call, text=text.replace(" }", f", bucket_mb = {bucket} }}"))
    )
    with pytest.raises(StudyError, match="one seed for all repetitions no, now yes"):
        start.check_unchanged(folder, replace(call, text=text.replace(" }", ", seed = 42 }")))


def _make(folder: StudyFolder, call: StudyCall) -> None:
    """A run that counts of each cell."""
    if not folder.exists:
        with start.hold_study(folder, call, new=False):
            pass
    for cell in start.parse_call("two", call).cells:
        folder.write(RunEnded(f"{cell.key} #1", "run", TrialOutcome.COUNTED, 0.5))


def test_results_compare_each_cell_with_its_counterpart(study: Study) -> None:
    values = {
        "nodes=1 method=alone": [1.00, 1.01, 0.99],
        "nodes=1 method=together": [2.00, 2.02, 1.99],
        "nodes=2 method=alone": [2.00, 2.02, 1.98],
        "nodes=2 method=together": [2.002, 2.016, 1.984],
        "nodes=1 method=one": [4.0, 4.1, 3.95],
    }
    found = compute_results(_progress(study, values))
    alone = found.cells[0]
    assert alone.comparison
    assert alone.comparison.ratio.value == pytest.approx(0.5, rel=0.02)
    assert alone.finding == "faster"
    assert found.cells[2].finding == "no difference shown"
    assert alone.speed_up
    assert alone.speed_up.value == pytest.approx(4, rel=0.02)
    assert conclusion_lines(found)[0].startswith(
        "alone is fastest: 1.42 times (1.41 to 1.42) as fast as"
    )
    said = conclusion_lines(found)[0]
    assert "averaged over 2 cells; 2 of 3 comparisons show a difference; 95% sure of all" in said
    assert "; the fastest, nodes=1 method=alone, is 4.0" in said
    assert said.endswith("as fast as one")
    first, second, third = (comparison_text(study, row) for row in found.cells if row.comparison)
    assert first.startswith("alone is 2 times")
    assert first.endswith("as fast as together at nodes=1")
    assert second == "no difference shown between alone and together at nodes=2"
    assert third.startswith("one takes 2 times (1.98 to 2.03) as long as together")


def test_results_of_a_study_that_has_hardly_begun(study: Study) -> None:
    assert conclusion_lines(compute_results(StudyProgress(study)))[0].startswith(
        "nothing was measured"
    )
    found = compute_results(_progress(study, {"nodes=1 method=alone": [1.0]}))
    assert found.cells[0].value
    assert math.isnan(found.noise)
    assert "not complete" in conclusion_lines(found)[1]


def test_who_repeated_an_unstable_cell_is_not_told_to_repeat_it(study: Study) -> None:
    key = study.cells[0].key
    first = "unstable from run to run: nodes=1 method=alone"
    few = conclusion_lines(compute_results(_progress(study, {key: [1.0, 2.0, 1.0]})))
    assert f"{first}: repeat with --until-stable 5" in few
    more = conclusion_lines(compute_results(_progress(study, {key: [1.0, 2.0, 1.0, 2.0]})))
    assert first in more


def test_a_fact_after_a_torn_line_is_read(tmp_path: Path) -> None:
    folder = StudyFolder.of(tmp_path, "two")
    folder.keep(StudyCall("", {}, {}, quick=False))
    (folder.path / JOURNAL).write_text('{"event":"begun","trial":"a #1","ru')
    folder.write(RunBegun("a #1", "run-1"))
    folder.write(RunEnded("a #1", "run-1", TrialOutcome.COUNTED, 0.5))
    assert [entry.run for entry in folder.entries()] == ["run-1", "run-1"]


COUNTED = {"event": "ended", "trial": "a #1", "run": "run-1", "outcome": "counted", "value": 0.5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"trial": "a #0"},
        {"trial": "a #" + 9 * "9"},
        {"trial": "a"},
        {"trial": 3},
        {"run": ".."},
        {"run": "."},
        {"run": "x\0"},
        {"run": None},
        {"outcome": "great"},
        {"outcome": []},
        {"value": None},
        {"value": math.nan},
        {"value": 10**400},
        {"value": True},
        {"event": "other"},
        {"event": []},
        {"remarks": 5},
        {"losses": [1.0]},
        {"losses": ["x", 1.0]},
        {"conditions": {"threads": 3}},
    ],
    ids=str,
)
def test_a_line_of_the_journal_that_is_no_fact_does_not_count(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    folder = StudyFolder.of(tmp_path, "two")
    folder.keep(StudyCall("", {}, {}, quick=False))
    (folder.path / JOURNAL).write_text(f"{json.dumps(COUNTED | wrong)}\n{json.dumps(COUNTED)}\n")
    assert list(folder.entries()) == [RunEnded("a #1", "run-1", TrialOutcome.COUNTED, 0.5)]


def _started(runs_dir: Path, call: StudyCall) -> StudyFolder:
    folder = StudyFolder.of(runs_dir, "two")
    with start.hold_study(folder, call, new=False):
        pass
    return folder


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("[1, 2]", "[1]", "no longer in it: nodes=2 method=alone and nodes=2 method=together"),
        ("repetitions = 3", 'metric = "loss"', "changed: metric step_seconds, now loss"),
        ("steps = 20", 'steps = 20\nlink = "1gbit"', 'changed: link "", now 1gbit'),
        (
            "every = 4",
            "every = 5",
            r"every 4, now 5 \(nodes=1 method=alone and nodes=2 method=alone\)",
        ),
    ],
)
def test_a_study_that_has_changed_does_not_go_on(
    tmp_path: Path, before: str, after: str, reason: str
) -> None:
    call = StudyCall(TEXT, {}, {"local": 2}, False)
    folder = _started(tmp_path, call)
    _make(folder, call)
    other = replace(call, text=TEXT.replace(before, after, 1))
    with pytest.raises(StudyError, match=reason), start.hold_study(folder, other, new=False):
        pass
    assert folder.text() == TEXT


def test_the_short_variant_of_a_started_study_is_a_study_of_its_own(tmp_path: Path) -> None:
    whole = _started(tmp_path, StudyCall(TEXT, {}, {"local": 2}, False))
    _make(whole, StudyCall(TEXT, {}, {}, False))
    folder, call = start.find_study("two", tmp_path, {}, {"local": 2}, quick=True)
    assert folder.path == tmp_path / "two-quick.study"
    assert start.parse_call("two", call).repetitions == 1
    with start.hold_study(folder, call, new=False):
        pass
    again, call = start.find_study("two-quick", tmp_path, {}, {}, quick=False)
    assert (again, call.quick) == (folder, True)
    assert start.find_study("two-quick", tmp_path, {}, {}, quick=True)[0] == folder
    with (
        pytest.raises(StudyError, match="changed: epochs default, now 2; steps 20, now default"),
        start.hold_study(whole, call, new=False),
    ):
        pass


@pytest.mark.parametrize(
    "place",
    [
        "",
        "[]",
        '{"given":5,"places":[1],"quick":"no","nodes":"3"}',
        '{"places":{"local":"x","by":"me"}}',
    ],
)
def test_options_that_are_no_options_are_not_known(tmp_path: Path, place: str) -> None:
    folder = _started(tmp_path, StudyCall(TEXT, {}, {"local": 2}, False))
    (folder.path / "place.json").write_text(place)
    call = folder.call()
    assert (call.given, call.places, call.num_hosts) == ({}, {}, 1)
    assert (call.quick, call.is_trusted) == (False, False)


def test_hosts_that_somebody_else_named_are_not_reached(tmp_path: Path) -> None:
    mine = StudyCall(TEXT, {}, {"hosts": "mine.toml"}, False)
    folder = _started(tmp_path, mine)
    _make(folder, mine)
    assert start.find_study("two", tmp_path, {}, {}, quick=False)[1].places == {
        "hosts": "mine.toml"
    }
    place = folder.path / "place.json"
    place.write_text(place.read_text().replace("mine", "evil"))
    call = start.find_study("two", tmp_path, {}, {}, quick=False)[1]
    assert call.places == {}
    with (
        pytest.raises(StudyError, match=r"hosts --hosts evil\.toml, now no options"),
        start.hold_study(folder, call, new=False),
    ):
        pass


def test_a_study_makes_the_runs_dir_as_a_run_does(tmp_path: Path) -> None:
    _started(tmp_path / "runs", StudyCall(TEXT, {}, {"local": 2}, False))
    assert (tmp_path / "runs" / ".gitignore").read_text() == "*\n"
    assert (tmp_path / "runs").stat().st_mode & 0o77 == 0


def test_a_journal_that_cannot_be_written_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    folder = _started(tmp_path, StudyCall(TEXT, {}, {"local": 2}, False))
    (folder.path / JOURNAL).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StudyError, match=r"cannot record the study in .*: it is a link"):
        folder.write(RunBegun("a #1", "run-1"))


ACCURACY = """
metric = "METRIC"
repetitions = 2
[axes]
sync = ["all_reduce", "ring", "ddp"]
"""


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        (
            "loss",
            {"all_reduce": [0.5, 0.4], "ring": [0.5000001, 0.4], "ddp": [0.5, 0.4]},
            "all_reduce, ring and ddp have the same test loss in every run, within rounding",
        ),
        (
            "loss",
            {"all_reduce": [0.5, 0.4], "ring": [0.5, 0.4], "ddp": [0.1, 0.0003]},
            "ddp has the lowest test loss: ",
        ),
        (
            "accuracy",
            {"all_reduce": [0.5, 0.501], "ring": [0.9, 0.9005], "ddp": [0.8, 0.801]},
            "ring has the highest test accuracy: ",
        ),
        (
            "accuracy",
            {"all_reduce": [0.9, 0.901], "ring": [0.5, 0.5005], "ddp": [0.8, 0.801]},
            "no sync is shown to have a higher test accuracy than all_reduce",
        ),
        (
            "step_seconds",
            {"all_reduce": [1.0, 1.01], "ring": [2.0, 2.01], "ddp": [3.0, 3.01]},
            "no sync is shown to be faster than all_reduce; 2 of 2 comparisons show a difference",
        ),
        (
            "step_seconds",
            {"all_reduce": [1.0, 1.1], "ring": [1.05, 1.0], "ddp": [1.0, 1.05]},
            "no difference shown between all_reduce and any other in 2 comparisons (differences of "
            "up to ",
        ),
        (
            "step_seconds",
            {"all_reduce": [1.0], "ring": [2.0], "ddp": [3.0]},
            "as measured, all_reduce is fastest; one run of a cell cannot show whether that is",
        ),
        (
            "step_seconds",
            {"all_reduce": [1.0], "ring": [0.8], "ddp": [0.5]},
            "as measured, ddp is fastest: 2 times as fast as all_reduce; one run of a cell cannot",
        ),
        (
            "accuracy",
            {"all_reduce": [0.5], "ring": [0.4], "ddp": [0.6]},
            "as measured, ddp has the highest test accuracy (+10.0% against all_reduce); one run",
        ),
    ],
)
def test_the_answer_is_one_sentence(
    metric: str, values: dict[str, list[float]], expected: str
) -> None:
    study = parse_study("three", ACCURACY.replace("METRIC", metric))
    found = answer_text(
        compute_results(_progress(study, {f"sync={key}": each for key, each in values.items()}))
    )
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("metric", "values", "words"),
    [
        ("loss", [2.24, 2.35], "barely better than guessing (best run 2.24, guessing 2.30)"),
        ("loss", [2.31, 2.35], "all runs still guess (loss of guessing: 2.30)"),
        ("loss", [2.2, 2.3], ""),
        ("step_seconds", [2.3], ""),
    ],
)
def test_losses_of_guesses_are_called_so(metric: str, values: list[float], words: str) -> None:
    study = parse_study("three", ACCURACY.replace("METRIC", metric))
    values_by_cell = {"sync=all_reduce": [2.3], "sync=ring": values}
    result = compute_results(_progress(study, values_by_cell))
    lines = " ".join(conclusion_lines(result))
    assert words in lines
    assert ("guess" in lines) == bool(words)


def test_equal_results_of_runs_that_learned_nothing_are_called_so() -> None:
    study = parse_study("three", ACCURACY.replace("METRIC", "loss"))
    values = {f"sync={name}": [1.3, 1.3] for name in ("all_reduce", "ring", "ddp")}
    result = compute_results(_progress(study, values))
    cells = [
        replace(row, runs=tuple(replace(end, at_chance=True) for end in row.runs))
        for row in result.cells
    ]
    guessed = replace(result, cells=tuple(cells))
    assert "all runs still guess" in guess_text(guessed)
    assert guess_text(guessed) in conclusion_lines(guessed)
    assert answer_text(guessed) == answer_text(result)
    # One run that did learn is enough.
    assert guess_text(replace(result, cells=(result.cells[0], *cells[1:]))) == ""


def test_the_answer_is_followed_by_what_the_other_axes_change() -> None:
    text = ACCURACY.replace("METRIC", "loss") + "batch_size = [20, 100]\n"
    text += '[compare]\naxis = "sync"\nreference = "ring"\n'
    losses = {20: [0.5, 0.25], 100: [2.0]}
    study = parse_study("three", text)
    values = {
        f"sync={name} batch_size={size}": each
        for name in ("all_reduce", "ring")
        for size, each in losses.items()
    }
    found = compute_results(_progress(study, values))
    assert effect_lines(found) == ["test loss by batch_size: 0.3750 (20), 2.0000 (100)"]
    assert conclusion_lines(found)[1:2] == effect_lines(found)
    time = parse_study("three", text.replace('"loss"', '"step_seconds"'))
    assert effect_lines(compute_results(_progress(time, values))) == []


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("loss", "differs from seed to seed by 10% or more: sync=ring"),
        ("step_seconds", "unstable from run to run: sync=ring: repeat with --until-stable 5"),
    ],
)
def test_what_seeds_change_is_no_disturbance(metric: str, said: str) -> None:
    study = parse_study("three", ACCURACY.replace("METRIC", metric))
    values = {"sync=all_reduce": [0.5, 0.5], "sync=ring": [0.5, 0.8], "sync=ddp": [0.5, 0.5]}
    assert said in limit_lines(compute_results(_progress(study, values)))


def test_data_that_cannot_be_had_are_told_of_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[tuple[str, str]] = []
    monkeypatch.setattr("training.agent.host.reach.unreachable", lambda *_: tuple(servers))
    places = HostPool(Cluster("here", (_host(0), _host(1))))

    def study(dataset: str, data_dir: Path) -> Study:
        job = {"dataset": dataset, "data_dir": str(data_dir)}
        return parse_study("two", '[axes]\nsync = ["ring", "ddp"]\n', job)

    assert not places.find_data(study("synthetic", tmp_path))
    [told] = places.find_data(study("mnist", tmp_path))
    assert told.startswith(f"mnist is not in {tmp_path}: the first run has to fetch ")
    servers.append(("a.org", "No route to host"))
    with pytest.raises(PlanError, match=r"cannot be downloaded there \(a.org: No route to host\)"):
        places.find_data(study("mnist", tmp_path))
    with pytest.raises(PlanError, match="none: No such file"):
        places.find_data(study(f"imagefolder:{tmp_path}/none", tmp_path))
    far = HostPool(Cluster("lab", (_host(0, "ssh"),)))
    assert not far.find_data(study(f"imagefolder:{tmp_path}/none", tmp_path))


@pytest.mark.parametrize(("runs", "bounds"), [(2, False), (3, True)])
def test_two_runs_are_too_few_for_an_interval(runs: int, bounds: bool) -> None:
    study = parse_study("three", ACCURACY.replace("METRIC", "loss"))
    row = compute_results(_progress(study, {"sync=ring": [0.5, 0.8, 0.6][:runs]})).cells[1]
    assert ("±" in format_interval(row.value, study)) is bounds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ((1.0, 0.5, 4.0), "; the fastest, ring, is 8 times (X to Y) as fast as ddp"),
        ((1.0, 2.0, 4.0), "; the fastest, all_reduce, is 4 times (X to Y) as fast as ddp"),
        ((1.0, 0.9, 0.2), "; the fastest of the others, ring, is 0.222 times (X to Y)"),
        ((1.0, 0.3, 0.3), "; the fastest, ring, is 1 times (X to Y) as fast as ddp"),
    ],
)
def test_the_answer_says_how_fast_the_fastest_is_against_the_baseline(
    seconds: Sequence[float], said: str
) -> None:
    text = ACCURACY.replace("METRIC", "step_seconds") + '[compare]\nbaseline = { sync = "ddp" }\n'
    noise = ((1.0, 1.001), (1.001, 1.0), (1.0, 1.001))
    values = {
        f"sync={name}": [mean * each for each in noises]
        for name, mean, noises in zip(("all_reduce", "ring", "ddp"), seconds, noise, strict=True)
    }
    found = answer_text(compute_results(_progress(parse_study("three", text), values)))
    bounds = re.sub(r"\([0-9.]+ to [0-9.]+\)", "(X to Y)", found)
    assert said in bounds
    text += 'reference = "ddp"'  # then the comparison with the reference says it
    assert "the fastest, " not in answer_text(
        compute_results(_progress(parse_study("three", text), values))
    )


@pytest.mark.parametrize(
    ("metric", "value", "said"),
    [
        ("step_seconds", 0.5, "ring is 2 times as fast as all_reduce; one run of a cell cannot"),
        ("step_seconds", 3.0, "ring takes 3 times as long as all_reduce; one run of a cell"),
        ("loss", 0.9, "the test loss of ring is -0.1 against all_reduce; one run"),
    ],
)
def test_a_cell_of_one_run_is_as_measured(metric: str, value: float, said: str) -> None:
    study = parse_study("two", ACCURACY.replace("METRIC", metric))
    rows = compute_results(_progress(study, {"sync=all_reduce": [1.0], "sync=ring": [value]})).cells
    assert comparison_text(study, rows[1]).startswith(f"as measured, {said}")


def test_a_run_that_does_not_fit_is_left_out_and_named() -> None:
    text = 'repetitions = 8\n[axes]\nsync = ["all_reduce", "ring"]\n'
    study = parse_study("two", text)
    steady = [1.0, 1.01, 0.99, 1.02, 1.0, 0.98, 1.01, 1.0]
    values = {"sync=all_reduce": steady, "sync=ring": [*steady[1:], 9.0]}
    found = compute_results(_progress(study, values))
    assert found.left_out == ("sync=ring #8",)
    assert "left out of comparisons, as outliers: sync=ring #8" in conclusion_lines(found)


def test_bounds_are_rough_only_while_runs_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    study = parse_study("two", 'repetitions = 3\n[axes]\nsync = ["all_reduce", "ring"]\n')
    drawn: list[int] = []

    def watched(*args: Any, draws: int, **kwargs: Any) -> Comparisons:
        drawn.append(draws)
        return compare_cells(*args, draws=draws, **kwargs)

    monkeypatch.setattr("remote.study.results.compare_cells", watched)
    values = {"sync=all_reduce": [1.0, 1.1, 1.0], "sync=ring": [1.0, 1.2, 1.1]}
    whole = compute_results(_progress(study, values)).cells[1].comparison
    part = compute_results(_progress(study, values | {"sync=ring": [1.0, 1.2]})).cells[1].comparison
    assert whole
    assert part
    assert drawn == [DRAWS, FEW_DRAWS]


def test_repetitions_of_which_there_is_no_run_take_no_room(study: Study) -> None:
    key = study.cells[0].key
    ends = [RunEnded(f"{key} #{n}", "run", TrialOutcome.COUNTED, 1.0) for n in (1, 99_999)]
    assert compute_results(StudyProgress.of(study, ends)).cells[0].stability.runs == 2


def test_a_diverged_run_is_remarked_on_and_its_loss_does_not_count(tmp_path: Path) -> None:
    text = 'repetitions = 1\nmetric = "METRIC"\n[axes]\nsync = ["ring"]\n'
    for metric in ("loss", "step_seconds"):
        runner = acted_runner(tmp_path / metric, text.replace("METRIC", metric))
        for run in runner.runs():
            session: Any = run.session
            session.start(3)
            session.steps(1, 2)
            tested = rank_events.Evaluated(0, 1, 3, math.nan, 0.1, 360, 0.4)
            nan = rank_events.StepFinished(0, 1, 3, math.nan, 0.1)
            session.say(
                0, nan, tested, rank_events.Finished(0, 1, 3, 40.0), host_events.Exited(0, 0)
            )
            session.close()
            for _ in runner.batches(run):
                pass
        *_, end = runner.folder.entries()
        assert isinstance(end, RunEnded)
        assert end.remarks == ("sync=ring diverged at step 3: loss 2.4 → NaN",)
        if metric == "loss":
            assert end.outcome is TrialOutcome.FAILED
            assert end.cause == "the run has no test loss: loss is NaN at step 3 (rank 0)"
        else:
            assert (end.outcome, end.value) == (TrialOutcome.COUNTED, pytest.approx(0.1, rel=0.2))


def test_runs_of_which_the_loss_rises_are_counted_in_one_sentence(tmp_path: Path) -> None:
    runner = acted_runner(tmp_path, 'repetitions = 3\n[axes]\nsync = ["ring"]\n')
    for run, last in zip(runner.runs(), (8.0, 1.0, 9.0), strict=True):
        session: Any = run.session
        session.start(2)
        for step, loss in enumerate((2.5, last), start=1):
            session.say(0, rank_events.StepFinished(0, 1, step, loss, 0.1))
        session.say(0, rank_events.Finished(0, 1, 2, 40.0), host_events.Exited(0, 0))
        session.close()
        for _ in runner.batches(run):
            pass
    said = "2 runs did not learn: the training loss of sync=ring #1 rose from 2.5000 to 8.0000"
    assert said in conclusion_lines(compute_results(runner.progress))
    again = StudyProgress.of(runner.study, runner.folder.entries())
    assert said in conclusion_lines(compute_results(again))
    assert again.cells["sync=ring"].counted[2].losses == (2.5, 1.0)


def test_no_cell_is_repeated_without_end(study: Study) -> None:
    progress, made = StudyProgress(study), 0
    while trial := _repeated(progress, lambda _: 1.0):
        made += 1
        progress.apply(RunEnded(trial.key, "run", TrialOutcome.COUNTED, 1.0))
    assert made == 10 * study.repetitions * len(study.cells)


def test_one_run_is_not_known_to_be_stable() -> None:
    study = parse_study("two", 'repetitions = 1\n[axes]\nsync = ["ring"]\n')
    trial = _repeated(_progress(study, {"sync=ring": [1.0]}), lambda _: 0.0)
    assert trial
    assert trial.repetition == 2


def test_a_cell_that_fails_is_not_repeated_until_it_is_stable(study: Study) -> None:
    progress = _progress(study, {cell.key: [1.0, 2.0, 1.0] for cell in study.cells})
    failing = study.cells[0].key
    progress.apply(RunEnded(f"{failing} #4", "run", TrialOutcome.FAILED))
    for _ in range(20):
        trial = _repeated(progress, _spread)
        assert trial
        assert trial.cell.key != failing
        progress.apply(RunEnded(trial.key, "run", TrialOutcome.COUNTED, 1.0))


def test_of_two_runs_of_a_trial_the_first_counts(study: Study) -> None:
    key = f"{study.cells[0].key} #1"
    ends = [
        RunEnded(key, run, TrialOutcome.COUNTED, value) for run, value in (("a", 1.0), ("b", 9.0))
    ]
    progress = StudyProgress.of(study, ends)
    assert [end.run for end in progress.counted_runs] == ["a"]
    assert progress.cells[study.cells[0].key].values == [1.0]


def test_a_run_that_begins_again_has_not_failed(study: Study) -> None:
    key = f"{study.cells[0].key} #1"
    progress = StudyProgress(study)
    for entry in (RunEnded(key, "a", TrialOutcome.FAILED, cause="no memory"), RunBegun(key, "b")):
        progress.apply(entry)
    assert progress.cells[study.cells[0].key].cause == ""


def test_cells_without_a_common_repetition_are_not_compared(study: Study) -> None:
    first, second = (f"nodes=1 method={name}" for name in ("alone", "together"))
    progress = StudyProgress(study)
    progress.apply(RunEnded(f"{first} #1", "run", TrialOutcome.COUNTED, 1.0))
    progress.apply(RunEnded(f"{second} #2", "run", TrialOutcome.COUNTED, 2.0))
    found = compute_results(progress)
    assert answer_text(found).startswith("best seconds per step: nodes=1 method=alone")
    row = next(row for row in found.cells if row.comparison)
    assert "have no repetition in common" in comparison_text(study, row)


def test_the_largest_seed_is_followed_by_zero() -> None:
    study = parse_study("two", f"repetitions = 2\n[job]\nseed = {2**32 - 1}\n")
    assert [trial.work.seed for trial in study.trials()] == [2**32 - 1, 0]


def test_ranks_share_the_threads_of_their_host() -> None:
    host = replace(_host(0, "ssh"), threads=4, slots=2)
    chosen, _ = HostPool(Cluster("lab", (host,))).reach(CellPlace(processes=4))
    assert [(one.slots, one.threads) for one in chosen.hosts] == [(4, 2)]


def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    runner = acted_runner(tmp_path)
    run = next(runner.runs())
    session: Any = run.session
    session.start()
    session.close()
    for _ in runner.batches(run):
        pass
    assert set(session.stops) == {LIMIT}


@pytest.mark.parametrize(
    ("refused", "begun"), [(("all_reduce", "ring", "ddp"), 0), (("all_reduce", "ring"), 4)]
)
def test_a_study_of_which_all_runs_are_refused_stops(
    tmp_path: Path, refused: tuple[str, ...], begun: int
) -> None:
    runner = acted_runner(tmp_path, refused=refused, reason="there are no data")
    made = []
    for run in runner.runs():
        session: Any = run.session
        finish(session, 0.1)
        for _ in runner.batches(run):
            pass
        made.append(run)
    assert len(made) == begun
    assert runner.is_refused == (not begun)
    assert runner.progress.num_settled == (12 if begun else 3)
    line, cells = failure_lines(runner.progress)
    assert line == "failed: there are no data"
    assert "of 6 cells: method=" in cells


def test_a_study_that_goes_on_is_not_stopped_by_cells_that_never_start(tmp_path: Path) -> None:
    runner = acted_runner(tmp_path, refused=("ring", "ddp"), reason="no memory")
    alone = next(cell for cell in runner.study.cells if cell.job.sync == "all_reduce")
    runner.folder.write(RunEnded(f"{alone.key} #1", "run", TrialOutcome.COUNTED, 0.5))
    again = StudyRunner(runner.study, runner.folder, runner.places, runner.launcher)
    for run in again.runs():
        session: Any = run.session
        finish(session, 0.1)
        for _ in again.batches(run):
            pass
    assert (again.is_refused, again.progress.num_settled) == (False, 12)


def test_runs_that_fail_alike_on_different_hosts_fail_for_one_reason(tmp_path: Path) -> None:
    runner = acted_runner(tmp_path)
    for rank, run in enumerate(runner.runs()):
        session: Any = run.session
        rank = min(rank, len(session.state.ranks) - 1)
        name = session.state.hosts[session.state.ranks[rank].host].name
        text = f"Traceback (most recent call last):\n  line 9, in load\nOSError: no data on {name}"
        host = session.host_of(rank)
        session.say(host, host_events.OutputText(rank, "stderr", text), host_events.Exited(rank, 1))
        session.close()
        for _ in runner.batches(run):
            pass
    assert runner.progress.num_settled == 3
    assert runner.is_refused
    line, _ = failure_lines(runner.progress)
    assert "no data on" in line


def test_a_run_that_begins_while_its_study_is_stopped_is_stopped(tmp_path: Path) -> None:
    runner = acted_runner(tmp_path)
    places: Any = runner.places

    class Slow:
        def reach(self, place: CellPlace, most_nodes: int) -> Any:
            runner.stop("interrupted")
            return places.reach(place, most_nodes)

    runner.places = Slow()  # type: ignore[assignment]
    session: Any = next(runner.runs()).session
    assert session.stops == ["interrupted"]


def test_a_run_that_never_began_is_made_anew(tmp_path: Path) -> None:
    runner = acted_runner(tmp_path)
    first = runner.study.trials()[0]
    runner.folder.write(RunBegun(first.key, "gone"))
    again = StudyRunner(runner.study, runner.folder, runner.places, runner.launcher)
    assert next(again.runs()).trial == first
    ended = next(entry for entry in again.folder.entries() if isinstance(entry, RunEnded))
    assert (ended.run, ended.outcome, ended.cause) == (
        "gone",
        TrialOutcome.INTERRUPTED,
        "it never began",
    )


def test_a_run_that_an_earlier_call_left_and_that_failed_is_made_anew(tmp_path: Path) -> None:
    first = next(acted_runner(tmp_path).runs())
    again = acted_runner(tmp_path)
    again._iter_left_runs = lambda: iter([replace(first, is_left=True)])  # type: ignore[method-assign]
    runs = again.runs()
    session: Any = next(runs).session
    session.start()
    session.fail(0)
    session.close()
    for _ in again.batches(first):
        pass
    assert next(runs).trial == first.trial
    *_, end, begun = again.folder.entries()
    assert isinstance(end, RunEnded)
    assert (end.outcome, begun.trial) == (TrialOutcome.INTERRUPTED, first.trial.key)
    assert end.cause


def test_an_estimate_rests_on_the_runs_that_have_ended() -> None:
    study = parse_study("two", 'repetitions = 2\n[axes]\nsync = ["ring", "ddp"]\n')
    text = estimate.estimate_text(StudyProgress(study))
    assert text == "4 runs, and none yet to estimate from; one that takes 1 h is stopped"
    end = RunEnded("sync=ring #1", "run", TrialOutcome.COUNTED, 1.0, seconds=30.0)
    text = estimate.estimate_text(StudyProgress.of(replace(study, limit=90.0), [end]))
    assert text == "3 runs, about 1:30 by runs so far; one that takes 90 s is stopped"


def test_a_cell_without_a_run_has_no_speed_up(study: Study) -> None:
    found = compute_results(
        _progress(study, {"nodes=1 method=one": [4.0], "nodes=1 method=alone": [1.0]})
    )
    assert [row.cell.key for row in found.cells if row.speed_up] == [
        "nodes=1 method=alone",
        "nodes=1 method=one",
    ]
