"""All ways to read a run directory, as the commands and the dashboard read it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from remote.host_commands import inventory, pruning
from remote.limits import LIMITS
from remote.metrics import compare
from remote.metrics.run import RunFigures
from remote.metrics.run import read_figures as figures_of
from remote.record import checkpoints, index, layout, query, resume, tape
from remote.record.alike import find_similar
from remote.record.events_file import RunFolderError, follow_records, read_records
from remote.record.figures import FIGURES
from remote.record.find import find
from remote.record.log_files import LogFiles
from remote.record.loss_course import read_loss_course
from remote.record.read import has_begun, load_plan, verdict
from remote.record.reread import RunClocks, reread_steps
from remote.record.watch import WatchedRun
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.session.controller import Controller
from remote.session.times import TIMES
from remote.study.folder import StudyFolder
from remote.study.start_study import open_study, read_progress
from tests.hostile.fuzz.budget import Budget
from tests.hostile.fuzz.folders import OTHER, STUDIED
from tests.hostile.fuzz.shown import Show
from tests.hostile.fuzz.stories import Nowhere
from training.job import JobError
from training.registry import UnknownName
from training.wire.host_events import OutputText
from tui.commands import parse
from tui.compare import comparison_text as compare_text
from tui.export import csv as csv_export
from tui.export import json as json_export
from tui.export import numpy as numpy_export
from tui.flags.recorded import recorded_here
from tui.home import listing as runs_text
from tui.home.history import History
from tui.kit.exit import MISTAKES, UsageError
from tui.kit.replay import Replay
from tui.parse import script_report as parsing
from tui.report.chapter import make_chapter
from tui.report.data import to_csv, to_json
from tui.report.load import SubjectReader
from tui.report.pages import to_markdown
from tui.report.write import assemble_report
from tui.run.json_printer import JsonPrinter
from tui.run.narration import prefix_lines

CLEAR = (*MISTAKES, JobError, UnknownName, query.QueryError)
"""Errors that a command tells in a line."""
SELDOM = 0.15
"""How often the ways are tried that take long."""


@dataclass
class Case:
    """Where the runs are, and the one that is read."""

    runs: Path
    run: str
    random: Random
    budget: Budget
    out: Path

    @property
    def folder(self) -> Path:
        """The directory of the run."""
        return self.runs / self.run


Way = Callable[[Case], object]


def read_all(runs: Path, out: Path, random: Random, budget: Budget) -> str:
    """Read a runs directory in all ways. Returns the way that was the last one.

    Raises: whatever is no clear error."""
    names = sorted(path.name for path in runs.glob("2*") if path.name != OTHER)
    run = names[0] if names else OTHER
    case = Case(runs, run, random, budget, out)
    ways = [*USUAL, *(way for way in LONG if random.random() < SELDOM)]
    if (runs / STUDIED).exists():
        ways += OF_STUDIES
    for way in ways:
        budget.renew()
        case_of_way.append(way.__name__)
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                way(case)
        except CLEAR as error:
            if not str(error):
                raise AssertionError("an error without a word") from error
        except SystemExit:
            continue
    budget.stop()
    return case_of_way[-1]


case_of_way: list[str] = []
"""The ways that were tried, for who tells of one that failed."""


# Lists --------------------------------------------------------------------------------------------


def list_runs(case: Case) -> None:
    """`rankboard runs`, twice: the second time from the index."""
    for _ in range(2):
        found = index.entries(case.runs)
        runs_text.show(found, found)
        for run in found:
            json.dumps(runs_text.to_object(run), allow_nan=False)
    figures = [figure.title or figure.field for figure in FIGURES]
    key = case.random.choice(("run", "verdict", "lr", "sync", "ranks", *figures))
    query.sort_runs(found, key)
    word = case.random.choice(
        ("sync=ring", "loss<1", "started>2026-01-01", "star", "node", "note=")
    )
    list(filter(query.parse([word]), found))
    if found:
        find_similar(found[0], found)


def list_home(case: Case) -> None:
    """The home screen: runs, studies, and courses of losses."""
    history = History(case.runs)
    listed = history.recorded()
    history.read_courses([run.name for run in listed.runs], 10)


def find_run(case: Case) -> None:
    """A run by its name, the beginning of it, the name that a person gave it, and `last`."""
    for name in (case.run, case.run[:9], "called 3f9a", "last", "nothing", str(case.folder)):
        try:
            find(name, case.runs)
        except CLEAR:
            continue


def look_around(case: Case) -> None:
    """`rankboard ps` and `prune`, without hosts."""
    found = inventory.take_inventory(None, (), case.runs, asks_left_hosts=True)
    pruning.find_removable(found, 0.0, 0, set())
    one = inventory.take_inventory(None, (), case.runs, {case.run})
    pruning.find_removable(one, 0.0, 0, {case.run})


# One run ------------------------------------------------------------------------------------------


def replay(case: Case) -> None:
    """`rankboard open`: its end, and other times of it."""
    folder, plan = recorded_here(case.run, case.runs)
    session = Replay(folder, plan)
    show = Show(plan, case.random)
    show.look(session.state, session.state.now, case.budget)
    case.budget.renew()
    for share in (0.5, 0.1, 0.9, 1.1):
        session.go_to(session.duration * share)
        for _ in range(50):
            if not session._follow():
                break
    session.toggle()
    assert session.position >= 0
    session._tape.close()


def watch(case: Case) -> None:
    """A run that is watched as it grows."""
    folder, plan = recorded_here(case.run, case.runs)
    session = WatchedRun(folder, plan)
    session._follow()
    assert session.news is not None
    session._tape.close()


def glance(case: Case) -> None:
    """The overview of a long record."""
    _, plan = recorded_here(case.run, case.runs)
    made = tape.preview_tape(case.folder, plan)
    made.advance(float("inf"), 100)
    made.close()


def print_events(case: Case) -> None:
    """`rankboard events`."""
    _, plan = recorded_here(case.run, case.runs)
    out = io.StringIO()
    show = JsonPrinter(out, io.StringIO(), folder=case.folder)
    state = show.replay(follow_records(case.folder, len(plan.hosts), expand=expander(plan)), plan)
    show.summarize(state)
    for line in out.getvalue().splitlines():
        json.loads(line)


def print_logs(case: Case) -> None:
    """`rankboard logs`, with `--parse` where it is a script."""
    _, plan = recorded_here(case.run, case.runs)
    state = RunState(plan)
    for record in read_records(case.folder, len(plan.hosts), expand=expander(plan)):
        apply_record(state, record)
        if isinstance(record.event, OutputText):
            prefix_lines(record.event, state.host_name(record.host))
    if not plan.job:
        found = read_records(case.folder, len(plan.hosts), expand=expander(plan))
        parsing.show(found, plan, case.folder, None)


def parse_logs(case: Case) -> None:
    """`rankboard parse`, of its log files."""
    is_json = case.random.random() < 0.5
    parse.parse([case.run], json=is_json, hosts=None, runs_dir=case.runs)


def open_logs(case: Case) -> None:
    """`rankboard open` of log files."""
    paths = sorted((case.folder / layout.LOGS).glob("rank-*.log"))
    paths = [path for path in paths if path.is_file()]
    if paths:
        try:
            files = LogFiles(paths, case.out / "logs")
            files.read()
            files.close()
        except OSError as error:
            raise UsageError(str(error)) from error


def look_for_checkpoints(case: Case) -> None:
    """What `--resume` looks at."""
    checkpoints.has_saved(case.folder)
    verdict(case.folder)
    has_begun(case.folder)
    for name in (case.run, "last"):
        for local in (False, True):
            try:
                job = resume.job_of({"resume": name}, case.runs, local)
                resume.located(job, case.runs, local, rank_count=2)
            except CLEAR:
                continue


def come_back(case: Case) -> None:
    """`rankboard attach`, up to what is sent."""
    _, plan = recorded_here(case.run, case.runs)
    controller = Controller(plan, Nowhere(), {}, TIMES, LIMITS)
    controller.recall(read_records(case.folder, len(plan.hosts), expand=controller.ledger.expand))
    now = max(controller.state.now, 1_000.0) + 1.0
    controller.attach(now)
    controller.settle(now)
    controller.settle(now + 100.0)


def look_closer(case: Case) -> None:
    """A part of a chart, and the course of the loss."""
    plan = load_plan(case.folder)
    state = RunState(plan)
    with suppress(RunFolderError):  # the screen says why
        reread_steps(case.folder, plan.world_size, RunClocks.of(state), 2, 20, expander(plan))
        read_loss_course(case.folder, 10)


# Figures ------------------------------------------------------------------------------------------


def _figures(case: Case) -> list[RunFigures]:
    """The figures of the run, and of the other one."""
    found = [figures_of(case.folder)]
    return [*found, figures_of(case.runs / OTHER)] if case.run != OTHER else found


def export_run(case: Case) -> None:
    """`rankboard export`."""
    figures = figures_of(case.folder)
    json_export.write(figures, case.out / "run.json")
    csv_export.write(figures, case.out / "csv")
    numpy_export.write(figures, case.out / "numpy")


def compare_runs(case: Case) -> None:
    """`rankboard compare`."""
    compared = compare.compare_runs(_figures(case))
    json.dumps(compare_text.to_object(compared), allow_nan=False)
    compare_text.to_markdown(compared, {})


def report_runs(case: Case) -> None:
    """`rankboard report` of runs, without its pictures."""
    reader = SubjectReader(case.runs, 0.0, str)
    folders = [case.folder, case.runs / OTHER] if case.run != OTHER else [case.folder]
    for one in (folders, folders[:1]):
        _report(reader.read_runs(one))


def _report(subject: Any) -> None:
    made = make_chapter(subject)
    to_csv([subject])
    json.loads(to_json([subject], [made]), parse_constant=_refuse)
    to_markdown(assemble_report([made], "now"))


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


# Studies ------------------------------------------------------------------------------------------


def show_study_screen(case: Case) -> None:
    """The screen of a study."""
    History(case.runs).study("small")


def read_study(case: Case) -> None:
    """`rankboard study --list`, and what a study came to."""
    folder = StudyFolder.of(case.runs, "small")
    read_progress(folder, open_study(folder))


def report_study(case: Case) -> None:
    """`rankboard report` of a study."""
    folder = StudyFolder.of(case.runs, "small")
    _report(SubjectReader(case.runs, 0.0, str).read_study(folder, open_study(folder)))


USUAL: tuple[Way, ...] = (
    list_runs,
    list_home,
    find_run,
    look_around,
    replay,
    glance,
    print_events,
    print_logs,
    look_for_checkpoints,
    come_back,
    look_closer,
)
LONG: tuple[Way, ...] = (
    watch,
    parse_logs,
    open_logs,
    export_run,
    compare_runs,
    report_runs,
)
OF_STUDIES: tuple[Way, ...] = (show_study_screen, read_study, report_study)
