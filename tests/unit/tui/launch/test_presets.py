"""Presets of the launch form: files that people can read, write and break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tomllib

from remote.plan.plan import OnStall, Policy, Script
from training.job import Job
from tui.launch import presets
from tui.launch.presets import Preset, PresetError

FULL = Preset(
    Job(
        sync="ring",
        sync_option=("bucket_mb=10",),
        lr=1e-7,
        compile=True,
        data_dir='/a "b"\\c\x7f é😀',
        epochs=3,
    ),
    Policy(keep=True, doctor=False, max_restarts=2, on_stall=OnStall.RESTART, start_timeout=1.5),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "rankboard" / "presets"


@pytest.fixture
def written(folder: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.toml").write_text(text)
        return "mine"

    return write


@pytest.mark.parametrize(
    "preset",
    [
        FULL,
        Preset(Job(), Policy()),
        Preset(Job(model="vgg11"), Policy()),
        Preset(Script(("train.py", "--lr", "0.1", '"')), Policy(max_restarts=1)),
        Preset(
            Script(("-m", "pkg"), watch=False, before="x", follow=("*.csv",), fetch=("a", "b")),
            Policy(),
        ),
    ],
)
def test_a_preset_comes_back_as_it_was_saved(preset: Preset, folder: Path) -> None:
    file = presets.save("my preset", preset, keep=False)
    assert file == folder / "my preset.toml"
    assert presets.load("my preset", keep=False) == preset
    assert presets.list_names() == ["my preset"]


def test_a_file_has_what_differs_from_the_defaults() -> None:
    preset = Preset(Job(sync="ring", sync_option=("bucket_mb=10",)), Policy(max_restarts=2))
    data = tomllib.loads(presets.save("one", preset, keep=False).read_text())
    assert data == {
        "job": {"sync": "ring", "sync_option": ["bucket_mb=10"]},
        "policy": {"max_restarts": 2},
    }


def test_a_preset_is_replaced_and_deleted_and_leaves_nothing(folder: Path) -> None:
    presets.save("one", FULL, keep=False)
    presets.save("one", Preset(Job(), Policy()), keep=False)
    assert presets.load("one", keep=False).work == Job()
    assert [one.name for one in folder.iterdir()] == ["one.toml"]
    presets.delete("one")
    presets.delete("one")
    assert presets.list_names() == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 61, "a\nb", "a "])
def test_a_name_that_is_no_name_of_a_file_is_refused(name: str) -> None:
    with pytest.raises(PresetError, match="write up to 60 letters"):
        presets.save(name, FULL, keep=False)


BROKEN = [
    ("lr = ", "Invalid"),
    ("lr = 0.1", "lr: write settings below"),
    ("job = 3", "job: write \\[job\\]"),
    ("[job]\nstepps = 1", "\\[job\\] stepps: no such setting: did you mean 'steps'"),
    ('[job]\nlr = "0.1"', "\\[job\\] lr = '0.1': write a number"),
    ("[job]\nlr = -1", "--lr -1.0: must be at least 0"),
    ("[job]\nepochs = true", "write a whole number"),
    ("[job]\ncompile = 1", "write true or false"),
    ('[job]\nsync_option = "a"', "write a list"),
    ('[job]\nsync = "rong"', "did you mean 'ring'"),
    ("[program]\nwatch = true", "write words = "),
    ('[program]\nwords = "train.py"', "words = 'train.py': write a list of texts"),
    ('[program]\nwords = ["a"]\nwatch = 1', "watch = 1: write true or false"),
    ('[program]\nword = ["a"]', "did you mean 'words'"),
    ('[program]\nwords = ["a"]\n[job]\nlr = 0.1', "cannot be combined"),
    ("[policy]\nmax_restart = 1", "did you mean 'max_restarts'"),
    ('[policy]\ndoctor = "no"', "write true or false"),
    ('[policy]\non_stall = "restrat"', "--on-stall restrat: write report, stop or restart"),
    ('[policy]\non_disconnect = "x"', "--on-disconnect x: write keep or stop"),
    ("[policy]\nmin_nodes = 1", "applies to restarts"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_a_mistake_in_a_file_is_said_with_its_name(
    text: str, said: str, written: Callable[[str], str], folder: Path
) -> None:
    name = written(text)
    with pytest.raises(PresetError, match=said) as refused:
        presets.load(name, keep=False)
    assert str(refused.value).startswith(f"{folder / 'mine.toml'}: ")


def test_a_file_that_is_not_there_or_no_text_is_said(folder: Path) -> None:
    with pytest.raises(PresetError, match="No such file"):
        presets.load("gone", keep=False)
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PresetError, match=r"bad\.toml"):
        presets.load("bad", keep=False)


def test_other_files_are_no_presets(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("a.toml", ".b.toml.part", "c.txt", "-d.toml"):
        (folder / name).touch()
    assert presets.list_names() == ["a"]
