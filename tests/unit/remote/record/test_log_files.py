"""Log files of any run, as the record of a run."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.record.lock import launcher
from remote.record.log_files import LogFiles, OpenedFiles
from remote.run.findings.script_visibility import advice
from remote.run.run_state import RunState
from tests.kit.wait import wait


def line(step: int, loss: float) -> str:
    return f"step={step} loss={loss}\n"


@pytest.fixture
def logs(tmp_path: Path) -> Callable[..., list[Path]]:
    """Writes log files."""

    def write(**texts: str) -> list[Path]:
        paths = [tmp_path / f"{name}.log" for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text)
        return paths

    return write


def opened(files: LogFiles) -> RunState:
    found = OpenedFiles(files, follows=False)
    found._tape.close()
    return found.state


def test_each_file_is_a_rank_in_the_order_of_numbers(
    logs: Callable[..., list[Path]], tmp_path: Path
) -> None:
    paths = logs(r10=line(1, 10.0), r2=line(1, 2.0) + line(2, 1.0), r1="no step\n")
    files = LogFiles(paths, tmp_path / "runs")
    files.read()
    files.close()
    state = opened(files)
    assert [path.name for path in files.paths] == ["r1.log", "r2.log", "r10.log"]
    assert [(rank.step, rank.loss) for rank in state.ranks][1:] == [(2, 1.0), (1, 10.0)]
    assert list(state.curves.of("loss", 1).mean) == [2.0, 1.0]
    assert state.elapsed == 0


def test_rules_of_the_folder_read_them(
    logs: Callable[..., list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rankboard.toml").write_text("[[format]]\nline = 'round {step}: cost {loss}'\n")
    monkeypatch.chdir(tmp_path)
    files = LogFiles(logs(r0="round 7: cost 0.25\n"), tmp_path / "made")
    files.read()
    files.close()
    state = opened(files)
    assert (state.ranks[0].step, state.ranks[0].loss) == (7, 0.25)


def test_the_seconds_of_a_step_are_unknown_where_no_line_tells_them(
    logs: Callable[..., list[Path]], tmp_path: Path
) -> None:
    files = LogFiles(logs(a="".join(line(step, 1.0) for step in range(1, 9_000))), tmp_path / "r")
    files.read()
    files.close()
    state = opened(files)
    assert state.step == 8_999
    assert not state.ranks[0].pace


def test_lines_are_read_whole_as_they_come(logs: Callable[..., list[Path]], tmp_path: Path) -> None:
    (path,) = logs(a=line(1, 4.0) + "step=2 lo")
    files = LogFiles([path], tmp_path / "runs")
    files.read()
    assert opened(files).step == 1
    with path.open("a") as file:
        file.write("ss=2.0\nstep=3 loss=1.5")
    files.read()
    assert opened(files).step == 2
    files.close()
    state = opened(files)
    assert (state.step, state.ranks[0].loss) == (3, 1.5)


def test_a_file_that_was_replaced_is_read_from_its_beginning(
    logs: Callable[..., list[Path]], tmp_path: Path
) -> None:
    (path,) = logs(a=line(1, 4.0) + line(2, 2.0) + "half a line of step=")
    files = LogFiles([path], tmp_path / "runs")
    files.read()
    path.write_text(line(7, 1.0))
    files.read()
    files.close()
    assert opened(files).step == 7


def test_files_are_followed(logs: Callable[..., list[Path]], tmp_path: Path) -> None:
    (path,) = logs(a=line(1, 4.0))
    files, left = LogFiles([path], tmp_path / "runs"), threading.Event()
    files.read()
    reader = threading.Thread(target=files.follow, args=(left,))
    reader.start()
    try:
        with path.open("a") as file:
            file.write(line(2, 2.0))
        wait(lambda: opened(files).step == 2, "the second step")
    finally:
        left.set()
        reader.join()
    assert launcher(files.folder) is None


@pytest.mark.parametrize(("number", "lines"), [(1, "1 line"), (20_000, "20,000 lines")])
def test_what_is_not_read_is_said_with_the_file(
    logs: Callable[..., list[Path]], tmp_path: Path, number: int, lines: str
) -> None:
    text = "loss of 17 things at 0.5\n"
    files = LogFiles(logs(a=line(1, 1.0), b=text * number), tmp_path / "runs")
    files.read()
    files.close()
    state = opened(files)
    shows = f"rankboard parse {tmp_path / 'b.log'} shows them"
    assert advice(state, state.now) == f"{lines} with numbers not read: {shows}"


def test_of_files_it_is_said_at_once_that_nothing_is_read(
    logs: Callable[..., list[Path]], tmp_path: Path
) -> None:
    for number, text in enumerate(("", "loss of 17 things at 0.5\n")):
        files = LogFiles(logs(a=text), tmp_path / str(number))
        files.read()
        files.close()
        state = opened(files)
        assert advice(state, state.now).startswith("rankboard sees no steps and no values" * number)
        assert bool(advice(state, state.now)) == bool(number)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(2)):
        LogFiles([tmp_path / "nothing.log"], tmp_path / "runs")


def test_tables_and_json_are_read_by_their_names(tmp_path: Path) -> None:
    rows = "".join(f"{step},{1 / step}\n" for step in range(1, 51))
    (tmp_path / "a.csv").write_text(f"step,loss\n{rows}51,0.125")
    state = {"log_history": [{"step": 10, "loss": 0.5}, {"step": 20, "loss": 0.25}]}
    (tmp_path / "b.json").write_text(json.dumps(state, indent=1))
    files = LogFiles(list(tmp_path.iterdir()), tmp_path / "runs")
    files.read()
    files.close()
    found = opened(files)
    assert [(rank.step, rank.loss) for rank in found.ranks] == [(51, 0.125), (20, 0.25)]
    assert not any(line.rank >= 0 for line in found.log.lines), "their text is no output"


def test_an_event_file_is_read(tmp_path: Path) -> None:
    writer = pytest.importorskip("tensorboardX").SummaryWriter(str(tmp_path))
    for step in (1, 2):
        writer.add_scalar("loss", 1 / step, step)
    writer.close()
    (path,) = tmp_path.glob("*tfevents*")
    files = LogFiles([path], tmp_path / "runs")
    files.read()
    files.close()
    assert (opened(files).step, opened(files).ranks[0].loss) == (2, 0.5)


def test_a_table_is_read_as_it_grows_and_when_it_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,loss\n1,4.0\n")
    files = LogFiles([path], tmp_path / "runs")
    files.read()
    with path.open("a") as file:
        file.write("2,2.0\n")
    files.read()
    (tmp_path / "new").write_text("step,loss\n3,1.0\n")
    (tmp_path / "new").replace(path)
    files.read()
    files.close()
    assert list(opened(files).curves.of("loss", 0).mean) == [4.0, 2.0, 1.0]
