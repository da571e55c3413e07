"""What export and report replace and remove: files that they wrote before, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.upload.outputs import OUTPUT_LIST
from tests.kit.commands import Done, run
from tests.kit.histories import History, plan
from tests.kit.recorded import recorded
from tui.commands.export import Format, export
from tui.commands.report import report
from tui.kit.output_folder import ForeignFilesError, OutputFolder

Run = Callable[..., Done]
assert run  # the fixture


@pytest.fixture
def recorded_run(run: Run, tmp_path: Path) -> str:
    """The name of a run that is recorded in `runs`."""
    of = History(plan(1)).training().done(0)
    return recorded(tmp_path / "runs", of).name


def test_an_export_replaces_nothing_that_it_did_not_write(run: Run, recorded_run: str) -> None:
    Path("out", recorded_run).mkdir(parents=True)
    precious = Path("out", recorded_run, "precious")
    precious.write_text("mine")
    done = run(export, runs=[recorded_run], to=Format.CSV, out=Path("out"), force=True)
    assert done.returncode == 2
    assert f"out has {recorded_run}/precious, which rankboard export did not write" in done.stderr
    assert "give another folder with --out" in done.stderr
    assert [path.name for path in Path("out").iterdir()] == [recorded_run]
    assert precious.read_text() == "mine"


def test_an_export_replaces_what_it_wrote_in_any_format(run: Run, recorded_run: str) -> None:
    for to in (Format.CSV, Format.TENSORBOARD, Format.CSV):
        assert not run(
            export, runs=[recorded_run], to=to, out=Path("out"), force=True
        ).returncode, to
    assert not list(Path("out").rglob("*tfevents*"))
    assert Path("out", recorded_run, "run.json").exists()
    Path("out", recorded_run, "notes.txt").touch()
    done = run(export, runs=[recorded_run], to=Format.CSV, out=Path("out"), force=True)
    assert (done.returncode, "/notes.txt, which" in done.stderr) == (2, True)
    assert Path("out", recorded_run, "run.json").exists()


def test_an_export_follows_no_link(run: Run, recorded_run: str) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/run.json").write_text("mine")
    Path("out").mkdir()
    Path("out", recorded_run).symlink_to(Path("elsewhere").absolute())
    Path("out", OUTPUT_LIST).write_text(json.dumps({"export": [f"{recorded_run}/run.json"]}))
    done = run(export, runs=[recorded_run], to=Format.CSV, out=Path("out"), force=True)
    assert done.returncode == 2
    assert Path("elsewhere/run.json").read_text() == "mine"


def test_a_report_removes_only_pictures_that_it_wrote(run: Run, recorded_run: str) -> None:
    assert run(report, names=[recorded_run], out=Path("out")).returncode == 0
    listed = OutputFolder(Path("out"), "report")
    Path("out/pictures/old.png").touch()  # of an earlier report, which had more pictures
    listed.note(["pictures/old.png"])
    Path("out/pictures/holiday.png").touch()
    Path("out/notes.md").touch()
    assert run(report, names=[recorded_run], out=Path("out")).returncode == 0
    assert not Path("out/pictures/old.png").exists()
    assert Path("out/pictures/holiday.png").exists()
    assert Path("out/notes.md").exists()


def test_a_report_of_somebody_else_is_kept(run: Run, recorded_run: str) -> None:
    Path("out/pictures").mkdir(parents=True)
    Path("out/report.html").write_text("mine")
    Path("out/pictures/holiday.png").touch()
    done = run(report, names=[recorded_run], out=Path("out"))
    assert done.returncode == 2
    assert "has no list of a report's files: move it elsewhere, or give another" in done.stderr
    assert Path("out/report.html").read_text() == "mine"
    assert Path("out/pictures/holiday.png").exists()


def test_a_file_in_the_way_of_a_report_is_named(run: Run, recorded_run: str) -> None:
    assert run(report, names=[recorded_run], out=Path("out")).returncode == 0
    Path("out/data.csv").unlink()
    OutputFolder(Path("out"), "report").note([])  # which forgets what is gone
    Path("out/data.csv").write_text("mine")
    done = run(report, names=[recorded_run], out=Path("out"))
    assert (done.returncode, "out has data.csv, which rankboard report" in done.stderr) == (2, True)
    assert Path("out/data.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["../mine", "/etc/passwd", "", ".", "link/mine"])
def test_a_list_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine").touch()
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    (folder / OUTPUT_LIST).write_text(json.dumps({"report": [name, 3]}))
    listed = OutputFolder(folder, "report")
    assert listed.written() == set()
    listed.remove([name])
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize("text", ["", "[]", "[" * 10_000, '{"report": 3}', "\ufeff{}"])
def test_a_list_that_cannot_be_read_lists_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / OUTPUT_LIST).write_text(text)
    (tmp_path / "a").touch()
    listed = OutputFolder(tmp_path, "report")
    assert listed.written() == set()
    with pytest.raises(ForeignFilesError) as error:
        listed.check(["a", "b"])
    assert error.value.names == ["a"]
