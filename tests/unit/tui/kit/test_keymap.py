"""The keys that the user has chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.acted import until
from tests.kit.dashboard import Stage, asked
from tui.app.help import HelpDialog
from tui.kit import keymap
from tui.run.stacks_screen import StacksScreen


def read(folder: Path, text: str) -> keymap.Keymap:
    file = folder / "keys.toml"
    file.write_text(text)
    return keymap.read(file)


def remarks(folder: Path, text: str) -> list[str]:
    return [remark.removeprefix(f"{folder}/") for remark in read(folder, text).remarks]


def test_without_a_file_all_keys_are_the_usual_ones(tmp_path: Path) -> None:
    assert keymap.read(tmp_path / "keys.toml") == keymap.Keymap()


def test_a_key_or_several_by_any_spelling(tmp_path: Path) -> None:
    found = read(
        tmp_path, '[keys]\nstacks = "S"\nhelp = ["?", "F3"]\nzoom = "ctrl+z, *"\nfollow = ","\n'
    )
    assert found.remarks == ()
    assert found.keys == {
        "stacks": "S",
        "help": "question_mark,f3",
        "zoom": "ctrl+z,asterisk",
        "follow": "comma",
    }


def test_two_actions_change_their_keys(tmp_path: Path) -> None:
    found = read(tmp_path, '[keys]\nstacks = "z"\nzoom = "s"\n')
    assert found == keymap.Keymap({"stacks": "z", "zoom": "s"})


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        (
            '# mine\n\n[keys]\nstaks = "S"\n',
            ["keys.toml: staks: there is no such action: did you mean 'stacks'?"],
        ),
        (
            '[keys]\nxyzzy = "S"',
            ["keys.toml: xyzzy: there is no such action; docs/reference/keys.md lists"],
        ),
        (
            '[keys]\nzoom = "ctlr+z"',
            ["keys.toml: zoom: there is no key 'ctlr+z'; write keys such as"],
        ),
        ("[keys]\nzoom = 3", ['keys.toml: zoom: write a key, such as "S" or "ctrl+x", or several']),
        (
            '[keys]\nzoom = ""',
            ['keys.toml: zoom: write a key, such as "S" or "ctrl+x", or several'],
        ),
        ('[keys]\ninterrupt = "x"', ["keys.toml: interrupt: its keys cannot be changed"]),
        ('[key]\nzoom = "x"', ["keys.toml: key: unknown: write keys below [keys]"]),
        ('keys = "x"', ["keys.toml: keys: write a table: [keys], and"]),
        (
            '[keys]\nzoom = "q"',
            ["keys.toml: zoom: 'q' is also the key of 'quit'; 'zoom' keeps its default"],
        ),
        (
            '[keys]\nfollow = "s"',
            ["keys.toml: follow: 's' is also the key of 'stacks'; 'follow' keeps its default"],
        ),
        (
            '[keys]\nzoom = "ctrl+c"',
            ["keys.toml: zoom: 'ctrl+c' is also the key of 'interrupt'; 'zoom' keeps its default"],
        ),
        (
            '[keys]\nzoom = "Y"\nstacks = "Y"',
            [
                "keys.toml: zoom: 'Y' is also the key of 'stacks'; 'zoom' keeps its default",
                "keys.toml: stacks: 'Y' is also the key of 'zoom'; 'stacks' keeps its default",
            ],
        ),
    ],
)
def test_what_is_wrong_is_told_and_the_usual_keys_stay(
    tmp_path: Path, text: str, starts: list[str]
) -> None:
    found = remarks(tmp_path, text)
    assert len(found) == len(starts)
    for remark, start in zip(sorted(found), sorted(starts), strict=True):
        assert remark.startswith(start)
    assert read(tmp_path, text).keys == {}


def test_one_mistake_leaves_the_other_keys(tmp_path: Path) -> None:
    found = read(tmp_path, '[keys]\nzoom = "q"\nstacks = "S"\n')
    assert found.keys == {"stacks": "S"}
    assert len(found.remarks) == 1


@pytest.mark.parametrize("text", ["[keys\n", '[keys]\na = "x"\na = "y"\n'])
def test_a_file_that_is_no_toml(tmp_path: Path, text: str) -> None:
    (remark,) = remarks(tmp_path, text)
    assert remark.startswith("keys.toml: ")
    assert "line " in remark
    assert remark.endswith("all keys keep their defaults")


async def test_the_dashboard_obeys_the_file_and_tells_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "rankboard").mkdir()
    (tmp_path / "rankboard" / "keys.toml").write_text(
        '[keys]\nstacks = "S"\nfollow = "F"\nnext-rank = "q"\nback = "B"\n'
    )
    stage = Stage()
    async with stage.shown(size=(120, 60), notifications=True) as pilot:
        remark = "is also the key of 'quit'"
        await until(pilot, lambda: any(remark in one.message for one in stage.app._notifications))
        await stage.train(pilot)
        await until(pilot, lambda: "S Stacks" in stage.text() and "F follow" in stage.text())
        assert "r rank" in stage.text()
        await pilot.press("s")
        assert stage.app.screen is stage.screen
        await pilot.press("S")
        await until(pilot, lambda: isinstance(stage.app.screen, StacksScreen))
        await pilot.press("B", "question_mark")
        await until(pilot, lambda: isinstance(stage.app.screen, HelpDialog))
        await until(pilot, lambda: "│   S   " in stage.text())
        await pilot.press("B", "q")
        await asked(pilot)
        assert "Watch (B)" in stage.text()
        await pilot.press("B")
