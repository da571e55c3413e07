"""What a report computes: curves, times to targets, use of the links."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remote.events import Restarted, SessionClosed
from remote.format import seconds as write_seconds
from remote.metrics.points import loss_by_step, loss_by_time
from remote.metrics.run import RunFigures, read_figures
from remote.study.progress import StudyProgress
from remote.study.study import AxisValue, Cell, CellPlace, StudyAxis
from remote.study.study_file import parse_study
from tests.kit.histories import History, plan
from tests.kit.recorded import recorded
from tests.kit.studies import BYTES, study
from training.job import Job
from training.wire.host_events import GpuSample, Hello, HostSample
from training.wire.rank_events import Epoch, StepFinished
from tui.report.chapter import make_chapter
from tui.report.curves import MOST_POINTS, average_curve, smooth
from tui.report.load import SubjectReader, time_cells
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import describe_iterations, measure_timing
from tui.report.topics.final_values import (
    TRAINING_LOSS,
    compare_finals,
    describe_equality,
)
from tui.report.topics.machines import describe_virtual_hosts
from tui.report.topics.network import measure_traffic
from tui.report.topics.phases import phase_picture
from tui.report.topics.scaling import scaling_pictures
from tui.report.topics.training import find_targets, measure_target


def run_of(
    folder: Path, name: str, losses: list[float], seconds: float = 0.1, job: Job | None = None
) -> RunFigures:
    """A run of two ranks with these losses, blocked for 20% of each step."""
    of = History(replace(plan(2), run=name, work=job or Job())).training()
    for step, loss in enumerate(losses, 1):
        of.now += seconds
        for rank in (0, 1):
            sync = (0.2 + 0.1 * rank) * seconds
            of.rank(rank, StepFinished(rank, 1, step, loss, seconds, sync=sync, bytes_sent=BYTES))
    return read_figures(recorded(folder, of.done(0, 1).session(SessionClosed())))


def group(*runs: RunFigures, label: str = "cell", link: float = 0.0) -> RunGroup:
    by_repetition = dict(enumerate(runs, 1))
    return RunGroup(f"cell={label}", label, label, 2, 2, 2, 64, link, by_repetition, "done")


def subject(*groups: RunGroup) -> ReportSubject:
    """A study with these groups, which compares them with the first."""
    labels = [group.label for group in groups]
    cells = [Cell((("cell", label),), Job(batch_size=64), CellPlace(2)) for label in labels]
    axis = StudyAxis("cell", tuple(AxisValue(label, {}) for label in labels))
    of = replace(
        parse_study("name", "[axes]\nseed = [1]"),
        axes=(axis,),
        cells=tuple(cells),
        repetitions=1,
        compare="cell",
        reference=labels[0],
        baseline=cells[0].key,
    )
    progress = StudyProgress(of)
    times = time_cells(progress, groups)
    return ReportSubject("name", "title", (), groups, result=times, times=times)


def test_the_longest_bar_of_phases_ends_within_the_picture() -> None:
    """Also where its last part has no width, at which matplotlib would end the axis."""
    alone = {"seconds": 0.9, "data": 0.1, "compute": 0.8, "sync": 0.0}
    both = {"seconds": 0.5, "data": 0.1, "compute": 0.2, "sync": 0.2}
    [axes] = phase_picture([("one", alone), ("two", both)]).draw().axes
    assert axes.get_xlim()[1] > 0.9 * 1.02


def test_a_curve_is_the_mean_of_its_runs_with_their_range(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, f"run-{at}", [at + 4.0, at + 2.0, at + 1.0]) for at in (0, 1)]
    found = average_curve("both", list(map(loss_by_step, runs)))
    assert found
    assert found.x.tolist() == [1, 2, 3]
    assert found.middle.tolist() == [4.5, 2.5, 1.5]
    assert (found.low.tolist(), found.high.tolist()) == ([4, 2, 1], [5, 3, 2])


def test_a_curve_ends_with_its_shortest_run(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "a", [3.0, 2.0, 1.0]), run_of(tmp_path, "b", [3.0, 2.0], 0.12)]
    found = average_curve("both", list(map(loss_by_time, runs)))
    assert found
    assert found.x[-1] == pytest.approx(loss_by_time(runs[1])[0][-1])
    assert np.isfinite(found.middle).all()


def test_a_loss_that_is_no_number_leaves_the_others(tmp_path: Path) -> None:
    found = average_curve("one", [loss_by_step(run_of(tmp_path, "a", [2.0, math.nan, 1.0]))])
    assert found
    assert found.middle.tolist() == [2.0, 1.5, 1.0]


def test_who_waited_names_a_rank_that_a_restart_left_out(tmp_path: Path) -> None:
    of = History(plan(3)).training()
    for step in range(1, 11):
        for rank in range(3):
            of.rank(rank, StepFinished(rank, 1, step, 1.0, 1.0, sync=0.5, ready=0.1 + 0.3 * rank))
    of.session(Restarted((0, 1), "node3 was lost"))
    of.attempt = 1
    run = read_figures(recorded(tmp_path, of.done(0, 1).session(SessionClosed())))
    parts = {part.name: part for part in make_chapter(subject(group(run))).sections}
    assert [row[0] for row in parts["waits"].tables[0].rows] == [
        "0 (node1)",
        "1 (node2)",
        "2 (left out)",
    ]


def test_long_curves_are_smoothed() -> None:
    noise = np.tile([0.0, 2.0], 2 * MOST_POINTS)
    assert np.abs(smooth(noise)[4:-4] - 1).max() < 1e-9
    assert smooth(noise[:10]).tolist() == noise[:10].tolist()


def test_targets_lie_between_the_first_loss_and_one_that_all_reach(tmp_path: Path) -> None:
    fast = group(run_of(tmp_path, "fast", [10.0] * 5 + [1.0] * 10), label="fast")
    slow = group(run_of(tmp_path, "slow", [10.0] * 10 + [2.0] * 5, 0.2), label="slow")
    goals = find_targets(subject(fast, slow))
    assert [goal.value for goal in goals] == [6.0, 4.0, 2.8, 2.0]
    last = goals[-1]
    assert measure_target(fast, last) == [pytest.approx(loss_by_time(fast.runs[0])[0][9])]
    assert measure_target(slow, last) == [pytest.approx(loss_by_time(slow.runs[0])[0][14])]
    assert measure_target(slow, replace(last, value=1.0)) == []


def test_no_target_where_training_got_nowhere(tmp_path: Path) -> None:
    assert find_targets(subject(group(run_of(tmp_path, "flat", [2.0] * 8)))) == []


def test_blocked_time_is_that_of_the_rank_blocked_least(tmp_path: Path) -> None:
    job = Job(sync="all_reduce", sync_option=("granularity=flat",))
    found = measure_traffic(group(run_of(tmp_path, "a", [1.0] * 6, 0.5, job), link=10 * BYTES))
    assert found
    assert (found.sent, found.payload) == (BYTES, BYTES)
    assert found.blocked == pytest.approx(0.1)
    assert found.bus_bandwidth == pytest.approx(BYTES / 0.1)
    assert found.link_share == pytest.approx(1.0)
    assert math.isnan(found.hidden_share)


def test_of_an_exchange_that_overlaps_the_least_is_known(tmp_path: Path) -> None:
    found = measure_traffic(
        group(run_of(tmp_path, "a", [1.0] * 6, 0.5, Job(sync="ring")), link=5 * BYTES)
    )
    assert found
    assert found.link_share == pytest.approx(0.4)
    assert found.hidden_share == pytest.approx(0.5)


def test_what_no_formula_fits_has_no_bandwidth(tmp_path: Path) -> None:
    job = Job(sync="local_sgd")
    found = measure_traffic(group(run_of(tmp_path, "a", [1.0] * 6, 0.5, job), link=5 * BYTES))
    assert found
    assert math.isnan(found.link_share)


def test_an_outlier_is_named(tmp_path: Path) -> None:
    def cell(label: str, seconds: float, odd: float = 0.0) -> RunGroup:
        times = [seconds + at / 1e4 + odd * (at == 3) for at in range(6)]
        runs = [run_of(tmp_path, f"{label}{at}", [1.0] * 3, took) for at, took in enumerate(times)]
        return group(*runs, label=label)

    found = measure_timing(subject(cell("one", 0.1), cell("two", 0.2, odd=0.9), cell("three", 0.3)))
    assert found.left_out == ("two #4",)
    assert found.rows[1].speed_up
    assert found.rows[1].speed_up.value == pytest.approx(0.5, rel=0.01)


LINKS = """
repetitions = 2
[axes]
link = ["10mbit", "100mbit", "1gbit"]
method = [{ label = "star", sync = "gather_scatter" }, { label = "ring", sync = "ring" }]
[[cell]]
label = "alone"
sync = "none"
[compare]
axis = "method"
"""
BUCKETS = """
repetitions = 2
[job]
sync = "ddp"
[axes]
bucket_mb = [1, 5]
"""


def subject_of(runs: Path, text: str) -> ReportSubject:
    """A study of which each cell takes a second longer than the one before."""
    keys = [cell.key for cell in parse_study("small", text).cells]
    folder, found = study(runs, text, lambda trial: 1.0 + keys.index(trial.cell.key))
    return SubjectReader(runs, 0.0, str).read_study(folder, found)


def test_lines_are_drawn_along_the_links_of_a_study(tmp_path: Path) -> None:
    found = subject_of(tmp_path, LINKS)
    times = measure_timing(found)
    [picture] = scaling_pictures(times.rows, None, found.axis)
    assert picture.title == "Seconds per iteration by link"
    assert picture.series == ["star", "ring"]
    [axes] = picture.draw().axes
    assert axes.get_lines()[0].get_ydata().tolist() == pytest.approx([1, 3, 5])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["10mbit", "100mbit", "1gbit"]
    assert list(times.means) == ["ring"]


def test_one_line_along_the_axis_that_is_compared_has_no_mean(tmp_path: Path) -> None:
    found = subject_of(tmp_path, BUCKETS)
    times = measure_timing(found)
    [picture] = scaling_pictures(times.rows, None, found.axis)
    assert picture.title == "Seconds per iteration by bucket_mb"
    assert times.means == {}


def test_a_sentence_has_a_capital(tmp_path: Path) -> None:
    once = LINKS.replace("repetitions = 2", "repetitions = 1")
    said = make_chapter(subject_of(tmp_path, once)).verdict
    assert said[0].startswith("As measured, star is fastest; one run of a cell cannot show")


WAYS = """
repetitions = 2
[axes]
method = [
    { label = "ring", sync = "ring", nodes = 4 },
    { label = "ddp", sync = "ddp", nodes = 4 },
]
[[cell]]
label = "one node"
sync = "none"
nodes = 1
[compare]
axis = "method"
baseline = { method = "one node" }
"""


def test_no_line_is_drawn_through_one_point(tmp_path: Path) -> None:
    found = subject_of(tmp_path, WAYS)
    times = measure_timing(found)
    base = times.find(found.baseline)
    assert base
    assert base.speed_up
    assert scaling_pictures(times.rows, base, found.axis) == []


def run_on(
    folder: Path, name: str, hosts: tuple[str, str], boots: tuple[str, str]
) -> ReportSubject:
    """One run on two hosts of these names and boots, with a link of 1 Gbit/s."""
    of = History(replace(plan(2), run=name))
    for at in (0, 1):
        facts = ("user", 1, "3.11.9", "/usr/bin/python3", "Linux-6.1", boots[at], 0.5, 2**33)
        of.say(at, Hello(hosts[at], *facts))
        of.say(at, HostSample((50.0, 70.0), 3, 8, 1, 1))
    run = read_figures(recorded(folder, of.training(3).done(0, 1).session(SessionClosed())))
    return subject(group(run, link=125e6))


def test_virtual_hosts_are_said_to_be_one_machine(tmp_path: Path) -> None:
    lab = run_on(tmp_path, "lab", ("node1", "node2"), ("boot", "boot"))
    [alert] = make_chapter(lab).alerts
    assert "node1, node2 are not separate computers" in alert
    assert "virtual hosts on one machine with 2 cores." in alert


@pytest.mark.parametrize("boots", [("boot-1", "boot-2"), ("", "")])
def test_hosts_of_their_own_are_no_virtual_ones(tmp_path: Path, boots: tuple[str, str]) -> None:
    found = run_on(tmp_path, "real", ("node1", "node2"), boots)
    assert describe_virtual_hosts(found) == []


def of_study(subject: ReportSubject, **changes: Any) -> ReportSubject:
    """The subject with other fields of its study."""
    assert subject.result
    changed = replace(subject.result.study, **changes)
    return replace(subject, result=replace(subject.result, study=changed))


def test_a_quick_study_is_called_one(tmp_path: Path) -> None:
    found = make_chapter(of_study(subject_of(tmp_path, BUCKETS), is_quick=True))
    assert found.title == "small (quick variant)"
    assert found.alerts[0].startswith("This is the quick variant of the study")
    titles = {table.title for section in found.sections for table in section.tables}
    assert "Time to targets" not in titles, "it hardly trains"


def test_settings_of_the_command_line_are_named_on_top(tmp_path: Path) -> None:
    of = parse_study("small", WAYS, {"steps": 4, "data_dir": "/data"})
    assert of.overrides_text == "set on the command line: steps 4"
    assert not parse_study("small", WAYS).overrides_text
    found = make_chapter(of_study(subject_of(tmp_path, WAYS), overrides=of.overrides))
    assert found.alerts[0] == "Set on the command line: steps 4."


@pytest.mark.parametrize(("repetitions", "has_bounds"), [(2, False), (3, True)])
def test_two_runs_have_no_interval(tmp_path: Path, repetitions: int, has_bounds: bool) -> None:
    text = WAYS.replace("repetitions = 2", f"repetitions = {repetitions}")
    found = make_chapter(subject_of(tmp_path, text))
    tables = {table.title: table for section in found.sections for table in section.tables}
    for title in ("Seconds per iteration", "Final training loss"):
        assert ("95% interval" in tables[title].head) is has_bounds, title


def losses(folder: Path, name: str, *last: float, first: float = 3.0) -> RunGroup:
    """A group of which each run ends with one of these losses."""
    runs = [run_of(folder, f"{name}{at}", [first, 2.0, *[one] * 20]) for at, one in enumerate(last)]
    return group(*runs, label=name)


def test_models_that_did_not_learn_are_not_called_equal(tmp_path: Path) -> None:
    rose = [losses(tmp_path, name, 7.0, 7.0, 7.0) for name in ("one", "two")]
    found = make_chapter(subject(*rose))
    assert describe_equality(subject(*rose)) == []
    assert any("did not learn" in alert for alert in found.alerts)
    fell = [losses(tmp_path, name, 1.0, 1.0, 1.0) for name in ("three", "four")]
    [said] = describe_equality(subject(*fell))
    assert said == "The final training loss is equal within rounding in all cells compared"


def test_a_run_that_diverged_is_an_alert_and_a_remark_in_the_list_of_runs(tmp_path: Path) -> None:
    diverged = run_of(tmp_path, "bad", [2.3, *[900.0 + step for step in range(12)]])
    found = make_chapter(subject(group(diverged, label="one")))
    sentence = "diverged at step 2: loss 2.3 → 836 at the end"
    assert f"{diverged.name} {sentence}." in found.alerts
    (table,) = (
        table
        for section in found.sections
        for table in section.tables
        if {"run", "verdict"} <= set(table.head)
    )
    assert sentence in " ".join(table.rows[0])


@pytest.mark.parametrize(
    ("others", "said", "verdict"),
    [
        ((1.0, 1.0001, 1.0), "is that of the reference within 1e-4", "equal within 1e-4"),
        ((1.2, 1.2001, 1.2), "not shown to be equal: means are up to 0.200 apart", "not shown"),
        ((1.2, 0.7, 1.0), "is not shown to be equal: means are up to 0.0333 apart", "not shown"),
        ((1.2, 1.2001), "", "not known: too few runs"),
    ],
)
def test_only_close_losses_are_called_equal(
    tmp_path: Path, others: tuple[float, ...], said: str, verdict: str
) -> None:
    first = losses(tmp_path, "first", *(1.0,) * len(others))
    found = subject(first, losses(tmp_path, "other", *others))
    assert said in "".join(describe_equality(found))
    assert bool(describe_equality(found)) is bool(said)
    row = compare_finals(found, TRAINING_LOSS)[1]
    assert row.equality(TRAINING_LOSS).startswith(verdict)


def test_the_slowest_of_the_links_in_use_is_that_of_a_cell(tmp_path: Path) -> None:
    text = BUCKETS.replace("[axes]", "nodes = 2\n[axes]")
    folder, made = study(tmp_path, text, lambda trial: 1.0, places={"link": "1gbit,100mbit,10mbit"})
    [first, _] = SubjectReader(tmp_path, 0.0, str).read_study(folder, made).groups
    assert first.link == first.link_per_rank == pytest.approx(100e6 / 8)
    assert replace(first, ranks=4).link_per_rank == 0


def test_the_iterations_that_were_averaged_are_named(tmp_path: Path) -> None:
    short, long = run_of(tmp_path, "short", [1.0] * 8), run_of(tmp_path, "long", [1.0] * 50)
    assert describe_iterations(subject(group(short))) == "iterations 2 to 8"
    assert describe_iterations(subject(group(long))) == "iterations 2 to 40"
    both = describe_iterations(subject(group(short, long)))
    assert both == "iterations 2 to 40, or to the last one of a run that has fewer"
    notes = [
        one.note
        for part in make_chapter(subject(group(short, short))).sections
        for one in part.tables
    ]
    assert sum("iterations 2 to 8" in note for note in notes) == 3
    assert not any("2 to 40" in note for note in notes)


SIZES = """
repetitions = 3
metric = "accuracy"
[job]
sync = "ddp"
[axes]
batch = [{ label = "32", batch_size = 32 }, { label = "128", batch_size = 128 }]
[compare]
axis = "batch"
baseline = { batch = "32" }
"""


def test_batches_of_other_sizes_are_compared_by_the_sample(tmp_path: Path) -> None:
    """A step with four times as many samples takes twice as long."""
    folder, made = study(
        tmp_path,
        SIZES,
        lambda trial: (0.2 if trial.work.batch_size == 32 else 0.4) + 0.001 * trial.repetition,
    )
    found = SubjectReader(tmp_path, 0.0, str).read_study(folder, made)
    row = measure_timing(found).rows[1]
    assert row.against
    assert row.speed_up
    assert row.against.ratio.value == pytest.approx(0.5, rel=0.01)
    assert row.speed_up.value == pytest.approx(2.0, rel=0.01)
    assert row.seconds.value == pytest.approx(0.402, rel=0.001)
    sections = {section.name: section for section in make_chapter(found).sections}
    assert any("time per sample" in said for said in sections["scaling"].paragraphs)
    times = sections["times"].tables[0]
    assert times.rows[1][times.head.index("ms/sample")] == "3.14"


def test_two_runs_with_other_batches_are_compared_by_the_sample(tmp_path: Path) -> None:
    jobs = (Job(batch_size=32), Job(batch_size=128))
    runs = [run_of(tmp_path, f"run-{at}", [1.0] * 6, 0.1, job) for at, job in enumerate(jobs)]
    groups = tuple(group(run, label=run.name) for run in runs)
    pair = ReportSubject("runs", "two runs", (), groups)
    found = measure_timing(pair)
    assert found.rows[1].speed_up
    assert found.rows[1].speed_up.value == pytest.approx(4.0)
    sections = {section.name: section for section in make_chapter(pair).sections}
    assert any("time per sample" in said for said in sections["scaling"].paragraphs)


def test_a_report_of_runs_gives_the_mean_of_iterations_2_to_40_everywhere(tmp_path: Path) -> None:
    """Both runs are slower after step 40, one of them much more: their means over all steps have
    another ratio."""
    folders = []
    for name, early_seconds, late_seconds, lr in (("a", 0.3, 0.9, 0.1), ("b", 0.2, 5.0, 0.2)):
        history = History(replace(plan(2), run=name, work=Job(lr=lr))).training()
        for step in range(1, 121):
            seconds = early_seconds if step <= 40 else late_seconds
            for rank in (0, 1):
                history.rank(rank, StepFinished(rank, 1, step, 1.0, seconds, sync=seconds / 2))
        folders.append(recorded(tmp_path, history.done(0, 1).session(SessionClosed())))
    pair = SubjectReader(tmp_path, 0.0, str).read_runs(folders)
    early_means = []
    for run in pair.runs:
        is_early = (run.steps.step >= 2) & (run.steps.step <= 40)
        early_means.append(float(run.steps.seconds[is_early].mean()))
        summary_mean = run.summary["means"]["iterations_2_to_40"]["seconds"]
        assert summary_mean == pytest.approx(early_means[-1])
    written_means = [write_seconds(mean) for mean in early_means]
    sections = {section.name: section for section in make_chapter(pair).sections}
    for section_name in ("results", "times", "phases"):
        [table] = sections[section_name].tables
        place = table.head.index("s/iter")
        assert [row[place] for row in table.rows] == written_means
        assert "iterations 2 to 40" in table.note
    second_row = measure_timing(pair).rows[1]
    assert second_row.speed_up
    assert second_row.speed_up.value == pytest.approx(early_means[0] / early_means[1])
    assert "\N{MINUS SIGN}33.3% per step" in pair.verdict[0]


def test_a_study_of_the_accuracy_compares_that(tmp_path: Path) -> None:
    folder, made = study(
        tmp_path,
        SIZES,
        lambda trial: (0.9 if trial.work.batch_size == 32 else 0.6) + 0.01 * trial.repetition,
    )
    sections = make_chapter(SubjectReader(tmp_path, 0.0, str).read_study(folder, made)).sections
    [table] = next(section.tables for section in sections if section.name == "metric")
    assert table.title == "Test accuracy compared"
    row = dict(zip(table.head, table.rows[1], strict=True))
    assert row["accuracy"].startswith("62.0%")
    assert row["against 32"].startswith("lower by 30.0%")
    assert not [
        one for one in make_chapter(subject_of(tmp_path, LINKS)).sections if one.name == "metric"
    ]


def test_the_root_sends_most(tmp_path: Path) -> None:
    """Rank 0 sends to two others, and they send to it: the reason for what the exchange takes."""
    of = History(replace(plan(3), run="star", work=Job(sync="gather_scatter"))).training()
    for step in range(1, 5):
        of.now += 0.5
        for rank in range(3):
            sent = BYTES * (1 if rank else 2)
            of.rank(
                rank, StepFinished(rank, 1, step, 1.0, 0.5, sync=0.2, compute=0.3, bytes_sent=sent)
            )
    run = read_figures(recorded(tmp_path, of.done(0, 1, 2).session(SessionClosed())))
    star = replace(group(run, label="star", link=1e6), nodes=3, ranks=3)
    found = measure_traffic(star)
    assert found
    assert (found.sent, found.most) == (pytest.approx(BYTES * 4 / 3), 2 * BYTES)
    sections = {section.name: section for section in make_chapter(subject(star)).sections}
    table = sections["network"].tables[0]
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert (row["sent, mean"], row["sent, most"]) == ("321 KiB", "482 KiB")
    assert row["hidden"] == "59%"
    assert sections["network"].paragraphs == [
        "star: the root receives and sends 2 x 241 KiB per step, at least 0.494 s on a link of "
        "8mbit."
    ]


def test_steps_are_marked_by_whole_numbers(tmp_path: Path) -> None:
    sections = make_chapter(
        subject(group(run_of(tmp_path, "short", [3.0, 2.0, 1.0, 0.5])))
    ).sections
    [first, *_] = next(section.pictures for section in sections if section.name == "training")
    [axes] = first.draw().axes
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_a_sentence_keeps_the_name_of_a_host(tmp_path: Path) -> None:
    found = run_on(tmp_path, "here", ("local", "local"), ("boot", "boot"))
    name = found.runs[0].hosts[0].name
    said = make_chapter(replace(found, verdict=(f"{name} is slow",))).verdict
    assert said[0] == f"{name} is slow."


def test_only_a_whole_epoch_has_a_duration(tmp_path: Path) -> None:
    def durations(name: str, steps: int) -> list[tuple[str, ...]]:
        of = History(replace(plan(2), run=name)).training(steps)
        for rank in (0, 1):
            of.rank(rank, Epoch(rank, 1, steps, 1.0, 0.5, 64, 0.1 * steps))
        run = read_figures(recorded(tmp_path, of.done(0, 1).session(SessionClosed())))
        parts = {part.name: part for part in make_chapter(subject(group(run))).sections}
        return [row[2:] for row in parts["nodes"].tables[0].rows]

    assert durations("whole", 10) == [("1.00",), ("1.00",)]
    assert durations("part", 6) == [(), ()], "there is no such column"


def test_gpus_have_a_table_and_pictures_where_they_were_measured(tmp_path: Path) -> None:
    def used(name: str, *samples: GpuSample) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
        of = History(replace(plan(2), run=name)).training(3, device="cuda:0")
        of.say(0, HostSample((50.0,), 3, 8)).rank(0, *samples)
        found = make_chapter(
            subject(group(read_figures(recorded(tmp_path, of.done(0, 1).session(SessionClosed())))))
        )
        section = next(one for one in found.sections if one.name == "usage")
        rows = [row for table in section.tables for row in table.rows if "GPU" in table.title]
        return [table.title for table in section.tables], rows, [p.name for p in section.pictures]

    titles, rows, pictures = used(
        "a-run", GpuSample(0, 60.0, 2 << 30, 8 << 30, 1400), GpuSample(0, 80.0, 3 << 30, 8 << 30)
    )
    assert titles == ["Use of the hosts", "Use of the GPUs"]
    assert [row[:1] + row[2:] for row in rows] == [
        ("rank 0", "70%", "80%", "3 GiB", "8 GiB", "1400 MHz")
    ]
    assert {"gpu", "gpu-memory"} <= set(pictures)
    titles, rows, pictures = used("b-run")
    assert (titles, rows) == (["Use of the hosts"], [])
    assert not {"gpu", "gpu-memory"} & set(pictures)


def test_a_cell_without_samples_is_named_and_another_run_stands_for_a_short_one(
    tmp_path: Path,
) -> None:
    def sampled(name: str, seconds: float, *samples: HostSample) -> RunFigures:
        history = History(replace(plan(2), run=name)).training()
        for step in (1, 2):
            for rank in (0, 1):
                history.rank(rank, StepFinished(rank, 1, step, 1.0, seconds))
        history.say(0, *samples)
        return read_figures(recorded(tmp_path, history.done(0, 1).session(SessionClosed())))

    sample = HostSample((50.0,), 3, 8)
    ring = group(sampled("ring-1", 0.1), sampled("ring-2", 0.1, sample), label="ring")
    short = group(sampled("short", 0.1), label="short")
    long = group(sampled("long", 60.0), label="long")
    sections = make_chapter(subject(ring, short, long)).sections
    usage = next(section for section in sections if section.name == "usage")
    assert usage.paragraphs == [
        "Of one run of each cell; the pictures show means over its hosts.",
        "Without values: short. There is one sample a second, and the training was over before.",
        "Without values: long. Their hosts have sent no samples.",
    ]
    [table] = usage.tables
    assert [row[:3] for row in table.rows] == [("node1", "ring", "50%"), ("node2", "ring", "-")]
    assert table.note.endswith("A host without values has no sample: there is one a second.")
    cpu = next(picture for picture in usage.pictures if picture.name == "cpu")
    assert cpu.series == ["ring"], "a mean over hosts, as for any other cell"
