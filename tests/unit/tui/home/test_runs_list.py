"""`rankboard runs`: what it prints on a terminal, in a pipe and for programs, and what it keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remote.events import Restarted, StartRefused
from remote.host_commands import listed_runs as host_runs
from remote.plan.plan import PlanError
from remote.record import index as recorded_index
from remote.record import marks
from remote.record.entry import VERDICTS, Entry
from remote.record.find import find
from remote.record.write import Recorder
from remote.run.state.flaw import Flaw, FlawKind, Measure
from remote.run.state.phases import RUN_STATES
from remote.study.folder import RunBegun, StudyFolder
from tests.kit.commands import Done
from tests.kit.commands import run as run
from tests.kit.histories import History, plan
from training.job import Job
from training.wire.events import SESSION
from training.wire.host_events import Exited, Spawned
from training.wire.rank_events import StepFinished
from tui.commands.runs import runs
from tui.home import listing
from tui.kit import text_table as table
from tui.kit.widgets.phase import PHASE_STYLES

HOSTILE = "\x1b[31mred\x1b[0m \u202e<script>"
METHODS = ("ddp", "ring", "all_reduce")


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """Three finished runs, of which the second has a star and a hostile note."""
    made = []
    for index, method in enumerate(METHODS):
        name = f"20261120-0930{index}0-{method}-lenet5-3f9a"
        of = replace(plan(2), run=name, work=Job(sync=method, lr=0.01, seed=index))
        into = Recorder(tmp_path / "runs", of)
        into.close(History(of).training(steps=4 + index).done(0, 1).closed())
        made.append(name)
    marks.star(tmp_path / "runs" / made[1], True)
    marks.write_note(tmp_path / "runs" / made[1], HOSTILE)
    return made


def wide(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Have stdout be a terminal of this width."""
    for module in (listing, table):
        monkeypatch.setattr(module, "terminal_width", lambda: columns)


def test_a_pipe_gets_every_column(run: Callable[..., Done], names: list[str]) -> None:
    done = run(runs)
    head, *rows = done.stdout.splitlines()
    assert head.split("  ")[0] == "run"
    assert [row.split()[0] for row in rows] == names
    assert rows[1].endswith("lr=0.01, seed=1  *  red <script>")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_narrow_terminal_gets_what_differs(
    run: Callable[..., Done], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide(monkeypatch, 80)
    done = run(runs)
    head, *rows = done.stdout.splitlines()
    assert " ".join(head.split()) == "run method step loss per step settings * note"
    assert max(map(len, (head, *rows))) <= 80
    assert [row.split()[0] for row in rows] == [name[: len("20261120-093000")] for name in names]
    assert rows[1].endswith("seed=1    *  red <script>")
    assert done.stderr == (
        "rankboard: all 3 runs: model lenet5, data set digits, hosts 2, ranks 2, verdict finished, "
        "lr=0.01\n"
    )


@pytest.mark.parametrize("columns", [64, 70, 200])
def test_runs_of_one_study_are_told_apart_by_their_trials(
    run: Callable[..., Done],
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    """Two cells of one method, which only a setting tells apart, are not alike in any line."""
    cells = ("all_reduce", "all_reduce, overlapped", "ring")
    study = StudyFolder.of(tmp_path / "runs", "ways")
    with study.held():
        for name, cell in zip(names, cells, strict=True):
            study.write(RunBegun(f"method={cell} #1", name))
    wide(monkeypatch, columns)
    head, *rows = run(runs, words=["study=ways"]).stdout.splitlines()
    if columns == 200:
        assert "settings" in head
        return
    assert max(map(len, (head, *rows))) <= columns
    at = head.index("trial")
    assert [row[at:].partition("  ")[0].strip() for row in rows] == [f"{one} #1" for one in cells]


def test_a_name_is_shown_until_it_is_the_only_one() -> None:
    names = ("20261120-093000-a", "20261120-093000-b", "20261121-111111-c", "mine")
    found = listing.shorten_names([Entry(name) for name in names])
    assert list(found.values()) == [*names[:2], "20261121-1111", "mine"]


OVERFITTED = Flaw(FlawKind.OVERFITTED, 0, 5, Measure.TEST_LOSS, 0.27, 0.33)


@pytest.mark.parametrize(
    ("entry", "cell"),
    [
        (Entry("one", verdict="finished", flaws=(OVERFITTED,)), "overfitted"),
        (Entry("one", verdict="finished"), "finished"),
        (Entry("one", verdict="finished", diverged=True), "diverged"),  # of an older version
        (Entry("one", verdict="failed", diverged=True, flaws=(OVERFITTED,)), "failed"),
        (Entry("one", verdict="running", trouble="slow"), "▲ slow"),
        (Entry("one", verdict="running", trouble="stalled"), "✗ stalled"),
        (Entry("one", verdict="running"), "running"),
        (Entry("one", verdict="left", trouble="slow"), "left"),
    ],
)
def test_a_run_that_went_wrong_has_not_just_finished(entry: Entry, cell: str) -> None:
    row = listing.make_row(entry, "one", [])
    assert row[listing.TITLES.index("verdict")] == cell


@pytest.mark.parametrize("columns", [40, 80, 10_000])
def test_a_hostile_name_is_shown_as_text(
    run: Callable[..., Done],
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    (tmp_path / "runs" / names[0]).rename(tmp_path / "runs" / "2\x1b[2J\u202eX")
    wide(monkeypatch, columns)
    done = run(runs)
    assert done.stdout.splitlines()[1].startswith("2X ")
    assert "\x1b" not in done.stdout + done.stderr


def test_for_programs(run: Callable[..., Done], names: list[str]) -> None:
    done = run(runs, words=["star"], json=True)
    (found,) = map(json.loads, done.stdout.splitlines())
    assert (found["run"], found["star"], found["note"]) == (names[1], True, HOSTILE)
    assert (found["job"]["sync"], found["job"]["model"]) == ("ring", "lenet5")
    assert (found["verdict"], found["step"], found["hosts"]) == ("finished", 5, ["node1", "node2"])
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout


def test_filtered_and_sorted(run: Callable[..., Done], names: list[str]) -> None:
    done = run(runs, words=["step>4", "lr=0.01"], sort="step", reverse=True)
    found = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert found == [names[2], names[1]]


def test_none(run: Callable[..., Done], names: list[str]) -> None:
    assert run(runs, words=["seed=9"]).stderr == "rankboard: none of 3 runs fits\n"


def test_no_runs(run: Callable[..., Done]) -> None:
    assert run(runs).stderr == "rankboard: no runs in runs\n"


def test_mistakes(run: Callable[..., Done], names: list[str]) -> None:
    done = run(runs, words=["syn=ring", "los<1"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "rankboard: syn=ring: runs have no 'syn': did you mean 'sync'?",
        "rankboard: los<1: runs have no 'los': did you mean 'loss'?",
    ]


def test_a_run_that_cannot_be_read_is_told(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    (tmp_path / "runs" / names[0] / "plan.json").write_text("{")
    done = run(runs)
    assert "unreadable" in done.stdout.splitlines()[1]
    assert done.stderr == f"rankboard: {names[0]}: its plan.json cannot be read: it is not a plan\n"


def test_runs_of_a_study_that_was_only_tried_are_found(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    study = StudyFolder.of(tmp_path / "runs", "ways-quick")
    with study.held():
        study.write(RunBegun("method=ring #1", names[1]))
    done = run(runs, words=["study=ways"])
    assert [row.split()[0] for row in done.stdout.splitlines()[1:]] == [names[1]]
    assert done.stderr.splitlines()[0] == (
        "rankboard: only the quick variant of ways was started: these are runs of ways-quick"
    )
    assert "quick variant" not in run(runs, words=["study=ways-quick"]).stderr


def test_where_none_fits_unread_files_are_told(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    """A run that cannot be read may be the one that is looked for."""
    (tmp_path / "runs" / names[0] / "plan.json").write_text("{")
    study = tmp_path / "runs" / "ways.study"
    study.mkdir()
    (study / "journal.jsonl").symlink_to("elsewhere")
    assert run(runs, words=["study=ways"]).stderr.splitlines() == [
        "rankboard: none of 3 runs fits",
        f"rankboard: {names[0]}: its plan.json cannot be read: it is not a plan",
        "rankboard: ways.study: its journal.jsonl cannot be read: it is a link, which is not "
        "followed",
    ]


def test_stars_and_notes(run: Callable[..., Done], names: list[str]) -> None:
    done = run(runs, star=["last", names[0][:14]], unstar=[names[1]], note=("last", "the best"))
    assert done.stderr.splitlines() == [
        f"rankboard: starred {names[2]}",
        f"rankboard: starred {names[0]}",
        f"rankboard: {names[1]} has no star now",
        f"rankboard: noted on {names[2]}",
    ]
    found = [json.loads(line) for line in run(runs, json=True).stdout.splitlines()]
    assert [one["star"] for one in found] == [True, False, True]
    assert found[2]["note"] == "the best"
    run(runs, note=("last", ""))
    assert json.loads(run(runs, json=True).stdout.splitlines()[2])["note"] == ""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"star": ["none"]}, "no run called 'none' in runs: rankboard runs lists all"),
        ({"star": ["last", "20261120"]}, "20261120: 3 runs begin so; write more of the name:"),
        (
            {"star": ["last"], "words": ["x"]},
            "give filters, or --star, --unstar, --note and",
        ),
        ({"note": ("last", "x" * 70_000)}, "the note is longer than 65,536 bytes: write less"),
    ],
)
def test_marks_that_cannot_be_kept(
    run: Callable[..., Done], names: list[str], flags: dict[str, object], message: str
) -> None:
    done = run(runs, **flags)
    assert done.returncode == 2
    assert done.stderr.startswith(f"rankboard: {message}")
    assert run(runs, words=["star"], json=True).stdout.count("\n") == 1, "nothing is changed"


def test_what_a_link_leads_to_is_not_marked(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    (tmp_path / "runs" / names[0]).rename(tmp_path / "elsewhere")
    (tmp_path / "runs" / names[0]).symlink_to(tmp_path / "elsewhere")
    done = run(runs, star=[names[0]])
    assert (done.returncode, marks.is_starred(tmp_path / "elsewhere")) == (2, False)
    assert "is a link" in done.stderr


def test_the_list_loads_neither_a_library_for_figures_nor_the_launcher() -> None:
    code = (
        "import sys; from tui.commands.cli import load; load('runs'); "
        "not_needed = {'numpy', 'torch', 'textual', 'matplotlib', 'remote.launch'}; "
        "print(sorted(not_needed & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_name_that_a_person_gave_counts_before_the_beginning_of_another(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    folder, begins = tmp_path / "runs", names[0][:-1]
    assert find(begins, folder) == folder / names[0]
    run(runs, name=(names[1], begins))
    assert find(begins, folder) == folder / names[1]
    run(runs, name=(names[1], names[0]))
    assert find(names[0], folder) == folder / names[0], "what a run is really called comes first"
    with pytest.raises(PlanError, match="runs begin so"):
        find("", folder)


def test_a_run_is_found_by_its_name(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    told = f"rankboard: {names[1]} is named 'baseline' now\n"
    assert run(runs, name=(names[1], " baseline ")).stderr == told
    assert find("baseline", folder) == folder / names[1]
    assert names[1] in run(runs, words=["name=baseline"]).stdout
    assert run(runs, name=("baseline", "last")).returncode == 2
    run(runs, name=(names[0], "baseline"))
    assert "2 runs have this name" in run(runs, name=("baseline", "x")).stderr
    for one in names[:2]:
        run(runs, name=(one, ""))
    assert find("baseline", folder) is None


def test_runs_that_made_no_step_are_listed_on_request(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    refused = replace(plan(2), run="20261120-100000-refused")
    told = History(refused).session(StartRefused(SESSION, "no torch"))
    Recorder(tmp_path / "runs", refused).close(told.closed())
    done = run(runs)
    assert [row.split()[0] for row in done.stdout.splitlines()[1:]] == names
    assert done.stderr == (
        "rankboard: 1 run that made no step is not listed: --all lists them, "
        "rankboard prune --not-started removes them\n"
    )
    everything = run(runs, all_runs=True)
    assert [row.split()[0] for row in everything.stdout.splitlines()[1:]] == [*names, refused.run]
    assert everything.stderr == ""
    assert run(runs, words=["verdict=refused"]).stdout.count(refused.run) == 1
    assert len(run(runs, json=True).stdout.splitlines()) == 4
    marks.star(tmp_path / "runs" / refused.run, True)
    assert refused.run in run(runs).stdout


@pytest.mark.parametrize(
    ("entry", "made_no_step"),
    [
        (Entry("a", verdict="refused", job={}), True),
        (Entry("a", verdict="stopped", job={}, ranks_started=True), True),
        (Entry("a", verdict="lost", job={}), True),
        (Entry("a", verdict="stopped", job={}, step=1), False),
        (Entry("a", verdict="finished", job={}), False),
        (Entry("a", verdict="running", job={}), False),
        (Entry("a", verdict="left", job={}), False),
        (Entry("a", verdict="refused", script="train.py"), True),
        (Entry("a", verdict="failed", script="train.py", ranks_started=True), False),
    ],
)
def test_a_run_made_no_step(entry: Entry, made_no_step: bool) -> None:
    assert entry.made_no_step == made_no_step


@pytest.mark.parametrize("is_started", [True, False])
def test_whether_the_ranks_of_a_program_were_started_is_recorded(
    tmp_path: Path, is_started: bool
) -> None:
    """Its steps may not be known, so a run that did its work would look like one that did not."""
    of = plan(2, script=True)
    told = History(of)
    if is_started:
        for rank in (0, 1):
            told.rank(rank, told.launched(rank), Spawned(rank, 7), Exited(rank, 1))
    Recorder(tmp_path, of).close(told.closed())
    (entry,) = recorded_index.entries(tmp_path)
    assert (entry.ranks_started, entry.made_no_step) == (is_started, not is_started)


def test_a_program_that_was_restarted_may_have_made_steps(tmp_path: Path) -> None:
    """Its first attempt did its work, and the second one was lost before its ranks were started."""
    of = plan(2, script=True)
    told = History(of)
    for rank in (0, 1):
        told.rank(rank, told.launched(rank), Spawned(rank, 7), Exited(rank, 1))
    told.session(Restarted((0, 1), "rank 0 ended with exit code 1"))
    told.attempt = 1
    Recorder(tmp_path, of).close(told.closed())
    (entry,) = recorded_index.entries(tmp_path)
    assert not entry.made_no_step


def test_there_is_one_word_for_each_state_and_the_page_lists_it() -> None:
    assert set(RUN_STATES) >= {*VERDICTS, *recorded_index.OUTCOMES, *host_runs.ORDER}
    assert set(RUN_STATES) <= set(PHASE_STYLES)
    page = (Path(__file__).parents[4] / "docs" / "reference" / "states.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    rows = [f"| `{state}` | {meaning} |" for state, meaning in RUN_STATES.items()]
    assert [line for line in listed if line in rows] == rows


def test_a_diverged_run_is_no_plain_success_and_can_be_filtered_for(
    run: Callable[..., Done], names: list[str], tmp_path: Path
) -> None:
    of = replace(plan(2), run="20261121-080000-ddp-lenet5-0bad")
    history = History(of).training()
    for step, loss in enumerate([2.3, *[17_655.0 + step for step in range(12)]], 1):
        history.rank(0, StepFinished(0, 1, step, loss, 0.1))
    Recorder(tmp_path / "runs", of).close(history.done(0, 1).closed())
    listed = {line.split()[0]: line for line in run(runs).stdout.splitlines()[1:]}
    assert " diverged " in listed[of.run]
    assert all(" finished " in listed[name] for name in names)
    found = json.loads(run(runs, words=["flaw=diverged"], json=True).stdout)
    assert found["flaws"][0]["text"] == "diverged at step 2: loss 2.3 → 16302 at the end"
    summary = json.loads((tmp_path / "runs" / of.run / "summary.json").read_text())
    assert summary["flaws"] == found["flaws"]
    assert summary["exit_code"] == 0
