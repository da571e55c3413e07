"""`rankboard config …`: what it shows of settings, and what it finds wrong in their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.commands import call_rankboard

HOSTS = '[defaults]\nslots = 2\n[[host]]\nname = "a"\n'
RULES = "[[format]]\nline = 'round {step}: cost {loss}'\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the command."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_settings_are_shown_with_their_places(folder: Path) -> None:
    (folder / "hosts.toml").write_text(HOSTS)
    (folder / "rankboard.toml").write_text(RULES)
    done = call_rankboard("config", "show")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()[1:]]
    assert rows == [
        ["a", "name", "a                          hosts.toml, line 4, [[host]] name"],
        ["a", "address", "a                          hosts.toml, line 4, [[host]] name"],
        ["a", "slots", "2                          hosts.toml, line 2, [defaults] slots"],
        [
            "format",
            "1",
            "line     round {step}: cost {loss}  rankboard.toml, line 2, [[format]] line",
        ],
    ]
    whole = call_rankboard("config", "show", "--all").stdout
    assert " port " not in done.stdout
    assert any(line.split() == ["a", "port", "22", "default"] for line in whole.splitlines())


def test_settings_as_json(folder: Path) -> None:
    (folder / "lab.toml").write_text(HOSTS)
    done = call_rankboard("config", "show", "--json", "--all", "--hosts", "lab.toml")
    settings = {
        (told["of"], told["key"]): told for told in map(json.loads, done.stdout.splitlines())
    }
    assert settings["a", "slots"] == {
        "of": "a",
        "key": "slots",
        "value": 2,
        "file": "lab.toml",
        "line": 2,
        "from": "[defaults] slots",
    }
    assert settings["a", "port"]["from"] == "default"
    assert settings["a", "port"]["line"] is None


def test_values_of_the_environment_are_not_shown(folder: Path) -> None:
    (folder / "hosts.toml").write_text(f'{HOSTS}env_from = ["MY_KEY"]\n')
    done = call_rankboard("config", "show", "--all", MY_KEY="s3cret")
    assert "MY_KEY" in done.stdout
    assert "s3cret" not in done.stdout


def test_all_that_is_wrong_is_found_at_once(folder: Path) -> None:
    (folder / "hosts.toml").write_text('[defaults]\nuser = 3\n[[host]]\nadress = "a"\nport = 0\n')
    (folder / "rankboard.toml").write_text("\n[[format]]\nlines = 'x {loss}'\n")
    done = call_rankboard("config", "validate")
    assert (done.returncode, done.stderr) == (2, "")
    places = (
        "hosts.toml: line 2: [defaults]: user",
        "hosts.toml: line 4: host 1: unknown key 'adress'",
        "hosts.toml: line 5: host 1: port",
        "rankboard.toml: line 3: format 1: unknown key 'lines'",
    )
    lines = done.stdout.splitlines()
    assert [line[: len(place)] for line, place in zip(lines, places, strict=True)] == [*places]


@pytest.mark.parametrize(
    "words", [("lab.toml", "rankboard.toml"), ("rankboard.toml", "--hosts", "lab.toml")]
)
def test_files_that_are_right_are_named(folder: Path, words: tuple[str, ...]) -> None:
    (folder / "lab.toml").write_text(HOSTS)
    (folder / "rankboard.toml").write_text(RULES)
    done = call_rankboard("config", "validate", *words)
    assert (done.returncode, done.stdout) == (0, "")
    assert {*done.stderr.splitlines()} == {
        "rankboard: lab.toml is right: 1 host",
        "rankboard: rankboard.toml is right: 1 rule",
    }


@pytest.mark.parametrize("words", [("show",), ("validate",), ("validate", "none.toml")])
def test_nothing_to_look_at_is_a_mistake(words: tuple[str, ...]) -> None:
    done = call_rankboard("config", *words)
    assert done.returncode == 2
    assert "no such file" in done.stdout or "there is no hosts.toml" in done.stderr


@pytest.mark.parametrize("file", ["hosts.toml", "rankboard.toml"])
def test_a_schema_is_printed(file: str) -> None:
    told = json.loads(call_rankboard("config", "schema", file).stdout)
    assert "format" in told["properties"]
    assert ("host" in told["properties"]) == (file == "hosts.toml")


def test_other_files_have_no_schema() -> None:
    done = call_rankboard("config", "schema", "study.toml")
    assert done.returncode == 2
    assert "write hosts.toml or rankboard.toml" in done.stderr
