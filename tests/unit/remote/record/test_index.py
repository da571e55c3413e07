"""The list of recorded runs: what it tells, what is read again, and an index that lies or is
broken."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from remote import events
from remote.events import ClockMeasured
from remote.plan.plan import Plan
from remote.record import files, index, marks, tape
from remote.record.entry import Entry
from remote.record.layout import EVENTS, INDEX, JOURNAL, NODE, NOTE, OVERVIEW, PLAN
from remote.record.write import Recorder
from tests.kit.histories import START, History, plan, stepped
from tests.kit.scripts import seen
from tests.kit.stage import HELLO
from training.agent.layout import LOCK, run_folder
from training.job import Job
from training.wire.enums import EndReason
from training.wire.events import encode
from training.wire.host_events import AgentEnded, Exited, HostSample, Launched
from training.wire.rank_events import Evaluated

LONG_AGO = 1_000_000_000


def named(name: str, made: Plan | None = None) -> Plan:
    return replace(made or plan(2), run=name)


def recorded(runs_dir: Path, made: Plan, history: History | None = None) -> Path:
    """A run that has finished."""
    history = history or History(made).training(steps=4).done(0, 1)
    into = Recorder(runs_dir, made)
    state = history.closed()
    for one in history.records:
        into.write(one)
    into.close(state)
    return into.folder


def age(runs_dir: Path, when: int = LONG_AGO) -> None:
    """Let all files be old, so that they are known by their times."""
    for folder in runs_dir.iterdir():
        for path in (*folder.glob("*"), folder):
            os.utime(path, (when, when))


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    """Two old runs, with an index."""
    for name in ("a", "b"):
        recorded(tmp_path, named(name))
    age(tmp_path)
    index.entries(tmp_path)
    assert (tmp_path / INDEX).exists()
    return tmp_path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are read and not taken from the index."""
    names: list[str] = []
    original = index.read_entry

    def counting(folder: Path, failed: Callable[[OSError], object]) -> Entry:
        names.append(folder.name)
        return original(folder, failed)

    monkeypatch.setattr(index, "read_entry", counting)
    return names


def test_what_became_of_a_run(tmp_path: Path) -> None:
    job = Job(sync="ring", sync_option=("bucket_mb=10.0",), lr=0.01)
    made = named("a", replace(plan(2), work=job))
    history = History(made).training(steps=12, samples=16)
    history.rank(0, Evaluated(0, 2, 12, 0.5, 0.75, 100, 0.1)).done(0, 1)
    recorded(tmp_path, made, history)
    (found,) = index.entries(tmp_path)
    settings = {"sync": "ring", "sync_option": ["bucket_mb=10.0"], "lr": 0.01}
    assert (found.name, found.job, found.script) == ("a", settings, "")
    assert (found.setting("model"), found.setting("lr")) == ("lenet5", 0.01)
    assert (found.hosts, found.ranks) == (("node1", "node2"), 2)
    assert (found.verdict, found.cause, found.diverged) == ("finished", "", False)
    assert (found.step, found.steps) == (12, 40)
    assert (found.test_loss, found.accuracy) == (0.5, 0.75)
    assert found.loss == pytest.approx(sum(2 / step for step in range(1, 13)) / 12)
    assert found.step_seconds == pytest.approx(0.1)
    assert found.started == pytest.approx(START, abs=1)


def test_the_time_of_an_iteration_is_of_all_but_the_first(tmp_path: Path) -> None:
    made = named("a")
    history = History(made).training()
    for step in range(1, 61):
        seconds = 9.0 if step == 1 else 0.1 if step <= 40 else 0.4
        history.rank(0, stepped(0, step, seconds)).rank(1, stepped(1, step, seconds))
    recorded(tmp_path, made, history.done(0, 1))
    (found,) = index.entries(tmp_path)
    assert found.step_seconds == pytest.approx((39 * 0.1 + 20 * 0.4) / 59)


def test_a_failed_run_has_its_cause(tmp_path: Path) -> None:
    made = named("a")
    recorded(tmp_path, made, History(made).training(steps=4).rank(1, Exited(1, -9, "SIGKILL")))
    (found,) = index.entries(tmp_path)
    assert found.verdict == "failed"
    assert "SIGKILL" in found.cause


def test_a_script_has_no_settings(tmp_path: Path) -> None:
    recorded(tmp_path, named("a", plan(2, script=True)))
    (found,) = index.entries(tmp_path)
    assert (found.job, found.script, found.setting("lr")) == (None, "train.py", None)


def test_no_runs(tmp_path: Path) -> None:
    assert index.entries(tmp_path / "none") == ()
    assert index.entries(tmp_path) == ()


def test_what_has_not_changed_is_not_read(runs_dir: Path, read: list[str]) -> None:
    before = (runs_dir / INDEX).stat()
    assert [run.verdict for run in index.entries(runs_dir)] == ["finished", "finished"]
    assert read == []
    assert (runs_dir / INDEX).stat().st_mtime_ns == before.st_mtime_ns, "nor written"


def edit(path: Path, old: str, new: str) -> None:
    """Change a file in place, as some editors do."""
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda a: edit(a / OVERVIEW, '"finished"', '"stopped"'), {"verdict": "stopped"}),
        (lambda a: edit(a / PLAN, '"seed": 42', '"seed": 7'), {"job": {"seed": 7}}),
        (lambda a: marks.star(a, True), {"star": True}),
        (lambda a: marks.write_note(a, "good"), {"note": "good"}),
        (lambda a: (a / OVERVIEW).unlink(), {}),
    ],
)
def test_what_has_changed_is_read_again(
    runs_dir: Path, read: list[str], change: Callable[[Path], object], what: dict[str, object]
) -> None:
    change(runs_dir / "a")
    for _ in range(2):  # it has changed just now, so it is not kept
        changed, other = index.entries(runs_dir)
        assert {name: getattr(changed, name) for name in what} == what
        assert other.verdict == "finished"
    assert read == ["a", "a"]


def test_a_note_that_is_edited_is_read_again(runs_dir: Path, read: list[str]) -> None:
    marks.write_note(runs_dir / "a", "good")
    age(runs_dir, LONG_AGO + 1)
    index.entries(runs_dir)
    read.clear()
    edit(runs_dir / "a" / "note.txt", "good", "better")
    assert [run.note for run in index.entries(runs_dir)] == ["better", ""]
    assert read == ["a"]


def test_marks_are_taken_away(runs_dir: Path) -> None:
    for starred, text in ((True, "good"), (False, " ")):
        marks.star(runs_dir / "a", starred)
        marks.write_note(runs_dir / "a", text)
    assert (index.entries(runs_dir)[0].star, index.entries(runs_dir)[0].note) == (False, "")


def test_runs_come_and_go(runs_dir: Path) -> None:
    (runs_dir / "a").rename(runs_dir / "c")
    recorded(runs_dir, named("d"))
    assert [run.name for run in index.entries(runs_dir)] == ["b", "c", "d"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"head":1}',
        lambda data: data | {"head": [0, *data["head"][1:]]},
        lambda data: data | {"runs": []},
        lambda data: data | {"runs": {"a": [1, 2]}},
        lambda data: data | {"runs": {"a": ["/x", 1, data["runs"]["a"][2]]}},
        lambda data: data | {"runs": {"a": [*data["runs"]["a"][:2], [1, 2]]}},
    ],
)
def test_a_broken_index_is_made_anew(
    runs_dir: Path, read: list[str], text: str | Callable[[object], object]
) -> None:
    good = json.loads((runs_dir / INDEX).read_text())
    (runs_dir / INDEX).write_text(text if isinstance(text, str) else json.dumps(text(good)))
    assert [run.verdict for run in index.entries(runs_dir)] == ["finished", "finished"]
    assert read == ["a", "b"]
    assert json.loads((runs_dir / INDEX).read_text()) == good


@pytest.mark.parametrize("value", [7, "x", [1], {"a": 1}, None])
def test_no_value_of_a_wrong_type_comes_out_of_an_index(runs_dir: Path, value: object) -> None:
    good = index.entries(runs_dir)
    data = json.loads((runs_dir / INDEX).read_text())
    for column, field in enumerate(Entry._fields):
        right = data["runs"]["a"][2][column]
        is_figure = type(right) in (float, type(None)) and value in (7, None)
        if (
            type(value) is not type(right)
            and not is_figure
            and (value is not None or field not in ("job", "times"))
        ):
            spoilt = json.loads(json.dumps(data))
            spoilt["runs"]["a"][2][column] = value
            (runs_dir / INDEX).write_text(json.dumps(spoilt))
            assert index.entries(runs_dir) == good, field


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, -(10**50)])
def test_no_number_that_no_run_can_have_comes_out_of_an_index(runs_dir: Path, value: float) -> None:
    good = index.entries(runs_dir)
    data = json.loads((runs_dir / INDEX).read_text())
    for field in ("step", "loss", "elapsed"):
        spoilt = json.loads(json.dumps(data))
        spoilt["runs"]["a"][2][Entry._fields.index(field)] = value
        (runs_dir / INDEX).write_text(json.dumps(spoilt))
        assert index.entries(runs_dir) == good, field


@pytest.mark.parametrize("files", ["plan\0.json", "\ud83d", "nowhere"])
def test_a_run_whose_files_have_other_names_in_the_index_is_read_anew(
    runs_dir: Path, files: str
) -> None:
    good = index.entries(runs_dir)
    data = json.loads((runs_dir / INDEX).read_text())
    data["runs"]["a"][0] = files
    (runs_dir / INDEX).write_text(json.dumps(data))
    assert index.entries(runs_dir) == good


def test_a_folder_that_cannot_be_written_to_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path, named("a"))
    age(tmp_path)

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(index, "write_whole", refuse)
    assert [run.name for run in index.entries(tmp_path)] == ["a"]
    assert not (tmp_path / INDEX).exists()


def test_commands_at_once_do_each_other_no_harm(runs_dir: Path) -> None:
    good = index.entries(runs_dir)
    with ThreadPoolExecutor(8) as pool:

        def listed(turn: int) -> tuple[Entry, ...]:
            if turn % 3 == 0:
                (runs_dir / INDEX).unlink(missing_ok=True)
            return index.entries(runs_dir)

        assert all(found == good for found in pool.map(listed, range(48)))
    assert [path.name for path in runs_dir.glob(".*.part")] == []


def test_a_live_run_is_running(tmp_path: Path) -> None:
    made = named("a")
    into = Recorder(tmp_path, made)
    for one in History(made).training(steps=4).rank(0, Evaluated(0, 1, 4, 0.5, 0.75, 9, 1)).records:
        into.raw(encode(one).encode())
    into.flush()
    age(tmp_path)
    for _ in range(2):  # the second one out of the index
        (found,) = index.entries(tmp_path)
        assert (found.verdict, found.step, found.steps) == ("running", 4, 40)
        assert found.loss == pytest.approx((2 + 1 + 2 / 3 + 0.5) / 4)
        assert (found.accuracy, found.diverged) == (0.75, False)
        assert found.step_seconds == pytest.approx(0.1)
    into.release()
    assert index.entries(tmp_path)[0].verdict == "left"


@pytest.mark.parametrize(
    ("exits", "reason", "verdict"),
    [
        ((Exited(0, 0), Exited(1, 0)), EndReason.ALL_ENDED, "finished"),
        ((Exited(0, 1), Exited(1, 0)), EndReason.ALL_ENDED, "failed"),
        ((Exited(0, 0), Exited(1, 0)), None, "running"),
    ],
)
def test_a_run_that_its_launcher_has_left_is_known_from_its_agents(
    tmp_path: Path, exits: tuple[Exited, ...], reason: EndReason | None, verdict: str
) -> None:
    made = named("a", plan(1, 2))
    into = Recorder(tmp_path, made)
    for one in History(made).training(steps=2).records:
        into.raw(encode(one).encode())
    into.flush()
    into.release()
    node = run_folder(str(tmp_path / "a" / NODE), "a", 0)
    ended = (AgentEnded(reason),) if reason else ()
    history = History(made).training().say(0, seen(0, 4, 0.5)).say(0, *exits, *ended, after=3.0)
    os.makedirs(node)
    Path(node, "000000000001.journal").write_text("".join(encode(one) for one in history.records))
    with Path(node, LOCK).open("w") as lock:
        if not reason:  # its guard holds it
            fcntl.flock(lock, fcntl.LOCK_EX)
        (found,) = index.entries(tmp_path)
    assert found.verdict == verdict
    assert (found.step, found.loss, found.step_seconds) == (4, None, None)
    if reason:
        assert found.elapsed == pytest.approx(9.0, abs=0.3)


def test_a_run_that_was_left_took_as_long_as_its_agents_say(tmp_path: Path) -> None:
    made = named("a", plan(1, 2))
    into = Recorder(tmp_path, made)
    into.flush()
    into.release()
    node = run_folder(str(tmp_path / "a" / NODE), "a", 0)
    ended = AgentEnded(EndReason.ALL_ENDED, age=123.0)
    history = History(made).training().say(0, Exited(0, 0), Exited(1, 0), ended)
    os.makedirs(node)
    Path(node, "000000000001.journal").write_text("".join(encode(one) for one in history.records))
    Path(node, LOCK).touch()
    (found,) = index.entries(tmp_path)
    assert (found.verdict, found.elapsed) == ("finished", 123.0)


def test_a_live_run_is_listed_with_the_time_that_its_header_shows(tmp_path: Path) -> None:
    """Also where another machine has begun it, whose clock is another one."""
    made = named("a", plan(1))
    history = History(made).session(ClockMeasured(0, 3600.0))
    history.now += 3600.0
    history.say(0, HELLO, Launched((0,), (0,), age=30.0), HostSample((), 1, 1), after=5.0)
    into = Recorder(tmp_path, made)
    for one in history.records:
        into.raw(events.encode(one).encode())
    into.flush()
    (found,) = index.entries(tmp_path)
    into.release()
    state = history.state()
    assert (found.started, found.elapsed) == pytest.approx((state.started, state.elapsed))
    assert found.elapsed == pytest.approx(35.0)


def test_the_time_of_an_iteration_of_an_older_version_is_of_all_steps_of_a_record_of_some_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("STEPS", 50), ("WHOLE", 4_096), ("BLOCK", 1_000)):
        monkeypatch.setattr(tape, name, value)
    history = History(named("a")).training()
    for step in range(1, 402):
        history.rank(0, stepped(0, step, step % 7)).rank(1, stepped(1, step, step % 7))
    folder = recorded(tmp_path, named("a"), history.done(0, 1))
    (with_overview,) = index.entries(tmp_path)
    (folder / OVERVIEW).unlink()
    (tmp_path / INDEX).unlink(missing_ok=True)
    (without_overview,) = index.entries(tmp_path)
    assert without_overview.step_seconds == with_overview.step_seconds


@pytest.mark.parametrize("step", [3, 100, 397])
def test_the_newest_evaluation_of_a_long_record_is_found_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    made = named("a")
    history = History(made).training(steps=2).rank(0, Evaluated(0, 1, 2, 0.9, 0.5, 9, 1))
    history.training(steps=step).rank(0, Evaluated(0, 1, step, 0.5, 0.75, 9, 1))
    into = Recorder(tmp_path, made)
    for one in history.training(steps=400).records:
        into.raw(encode(one).encode())
    into.flush()
    into.release()
    for name, value in (("LARGE", 0), ("LINES", 50), ("WHOLE", 4_096), ("BLOCK", 1_000)):
        monkeypatch.setattr(tape, name, value)
    (found,) = index.entries(tmp_path)
    assert (found.step, found.steps) == (400, 40)
    assert (found.test_loss, found.accuracy) == (0.5, 0.75)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"step":-1}', '{"loss":"x"}', '{"loss":1e300}', '{"verdict":"splendid"}'],
)
def test_a_broken_overview_is_not_read(runs_dir: Path, text: str) -> None:
    (good, _) = index.entries(runs_dir)
    (runs_dir / "a" / OVERVIEW).write_text(text)
    assert index.entries(runs_dir)[0] == good


def test_what_is_no_run_is_not_listed(
    runs_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (runs_dir / "empty").mkdir()
    (runs_dir / "file").write_text("")
    elsewhere = recorded(tmp_path_factory.mktemp("other"), named("c"))
    (runs_dir / "link").symlink_to(elsewhere)
    assert [run.name for run in index.entries(runs_dir)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "it is not a plan"),
        ('{"format":1,"run":"a","hosts":1,"work":{}}', "it is not a plan"),
        ('{"format":9,"run":"a","hosts":[],"work":{}}', "it is in format 9, not 1 or 2"),
    ],
)
def test_a_plan_that_cannot_be_read_is_told(runs_dir: Path, text: str, problem: str) -> None:
    (runs_dir / "a" / PLAN).write_text(text)
    found, other = index.entries(runs_dir)
    assert (found.problem, found.verdict, found.ranks) == (problem, "unreadable", 0)
    assert other.verdict == "finished"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"lr": 0.1', '"lr": "fast"'),
        ('"slots": 1', '"slots": -1e999'),
        ('"compile": false', '"compile": 1'),
        ('"sync_option": []', '"sync_option": [1]'),
        ('"name": "node1"', '"name": {}'),
        ('"env": []', '"env": {"A": "1"}'),
        ('"env": []', '"env": [["A", 1], [2], "x", [[], "1"], ["\\u001b[2J", "1"]]'),
    ],
)
def test_a_plan_that_lies_gives_no_wrong_types(runs_dir: Path, old: str, new: str) -> None:
    edit(runs_dir / "a" / PLAN, old, new)
    found, _ = index.entries(runs_dir)
    assert found.job == {}
    assert found.verdict == "finished"
    assert all(isinstance(host, str) for host in found.hosts)
    assert found.variables == {}


@pytest.mark.parametrize(
    ("file", "field"),
    [
        (JOURNAL, "study"),
        (PLAN, "job"),
        (EVENTS, "step"),
        (NOTE, "note"),
    ],
)
def test_a_file_that_cannot_be_read_now_is_read_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, field: str
) -> None:
    """As where too many files are open, or a permission was missing, which changes no stamp."""
    folder = recorded(tmp_path, named("a"))
    marks.write_note(folder, "good")
    if file == EVENTS:
        (folder / OVERVIEW).unlink()
        history = History(named("a")).training(steps=4)
        (folder / EVENTS).write_bytes(b"".join(encode(one).encode() for one in history.records))
    (tmp_path / "ways.study").mkdir()
    (tmp_path / "ways.study" / JOURNAL).write_text('{"run":"a","trial":"t #1"}\n')
    age(tmp_path)
    told = []
    with monkeypatch.context() as failing:

        def refused(path: Path, flags: int) -> int:
            if path.name == file:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
            return opened(path, flags)

        opened = files.open_regular
        failing.setattr(files, "open_regular", refused)
        (without,) = index.entries(tmp_path, lambda name, error: told.append((name, str(error))))
    (whole,) = index.entries(tmp_path, lambda *one: pytest.fail(str(one)))
    (fresh,) = index.entries(tmp_path)
    assert getattr(without, field) != getattr(whole, field)
    assert whole == fresh
    assert (whole.study, whole.trial, whole.note, whole.step) == ("ways", "t #1", "good", 4)
    assert [name for name, _ in told] == ["ways.study" if file == JOURNAL else "a"]


def test_runs_of_a_study_say_which(runs_dir: Path, read: list[str]) -> None:
    study = runs_dir / "four-ways.study"
    study.mkdir()
    lines = [{"run": "b", "trial": "sync=ring #1"}, {"note": "no run"}, {"run": "b"}]
    (study / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines) + "{torn")
    for _ in range(2):
        found = index.entries(runs_dir)
        assert [(run.study, run.trial) for run in found] == [
            ("", ""),
            ("four-ways", "sync=ring #1"),
        ]
        age(runs_dir)
    with (study / JOURNAL).open("a") as journal:
        journal.write('\n{"run":"a","trial":"t"}\n')
    assert [run.trial for run in index.entries(runs_dir)] == ["t", "sync=ring #1"]
    assert read == []


def old_diverged_run(runs_dir: Path, name: str) -> Path:
    """A run that diverged, recorded by a version that looked for no flaws."""
    history = History(named(name)).training()
    for step in range(1, 30):
        history.rank(0, replace(stepped(0, step), loss=2.3 if step < 3 else 900.0 + step))
    folder = recorded(runs_dir, named(name), history.done(0, 1))
    overview = json.loads((folder / OVERVIEW).read_text())
    for key in ("flaws", "version", "diverged"):
        del overview[key]
    (folder / OVERVIEW).write_text(json.dumps(overview))
    return folder


def test_flaws_of_a_run_of_an_older_version_are_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_diverged_run(tmp_path, "a")
    age(tmp_path)
    (found,) = index.entries(tmp_path)
    assert found.outcome == "diverged"
    monkeypatch.setattr(index, "renew_entry", lambda *_: pytest.fail("the index has them"))
    assert index.entries(tmp_path) == (found,)


def test_of_many_runs_of_an_older_version_the_newest_come_first_and_the_others_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        old_diverged_run(tmp_path, name)
    age(tmp_path)
    monkeypatch.setattr(index, "RENEWAL_SECONDS", 0.0)
    outcomes = [[run.outcome for run in index.entries(tmp_path)] for _ in range(3)]
    assert outcomes == [
        ["finished", "finished", "diverged"],
        ["finished", "diverged", "diverged"],
        ["diverged", "diverged", "diverged"],
    ]
