"""`rankboard parse` and `rankboard formats`: what is said of logs, and own rules."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest

from remote.formats.catalog import known_formats
from tests.kit.commands import Done, call_rankboard

LOG = """\
loading 0.5 of the data
iter 0: loss 4.2000, time 56.27ms, mfu -100.00%
iter 1: loss 4.1000, time 50.00ms, mfu 10.00%
step 2: train loss 4.0000, val loss 3.9000
loading 0.75 of the data
round 7: cost 0.25
"""
HOSTS = '[[host]]\naddress = "10.0.0.1"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.log").write_text(LOG)
    return tmp_path


def run(folder: Path, *words: str, given: str = "") -> Done:
    with chdir(folder):
        return call_rankboard(*words, stdin=given)


def test_a_log_is_told_by_its_format_its_readings_and_what_is_not_read(folder: Path) -> None:
    said = run(folder, "parse", "train.log").stdout
    assert "train.log: read as nanoGPT, 6 lines\n  2 steps, 1 evaluation," in said
    assert "first: step 1: loss 4.2, step_seconds 0.05627, mfu -1\n" in said
    assert "last: evaluation, step 2: train_loss 4, val_loss 3.9\n" in said
    assert ["loss", "2", "4.2", "4.1", "4.1", "4.2"] in [line.split() for line in said.splitlines()]
    assert "3 lines with numbers not read, by kind:\n        2  loading 0.5 of the data\n" in said


def test_names_in_a_log_steer_no_terminal(folder: Path) -> None:
    line = json.dumps({"step": 1, "loss": 0.5, "\x1b]0;title\x07name": 1.5})
    (folder / "train.log").write_text(f"{line}\n" * 3)
    said = run(folder, "parse", "train.log").stdout
    assert "first: step 1: loss 0.5, name 1.5\n" in said
    assert "\x1b" not in said


def test_json_has_the_same(folder: Path) -> None:
    found = json.loads(run(folder, "parse", "train.log", "--json").stdout)
    assert (found["format"], found["steps"], found["evaluations"]) == ("nanoGPT", 2, 1)
    assert found["first"] == {
        "line": "iter 0: loss 4.2000, time 56.27ms, mfu -100.00%",
        "kind": "step",
        "step": 1,
        "values": {"loss": 4.2, "step_seconds": pytest.approx(0.05627), "mfu": -1.0},
    }
    assert found["series"]["loss"]["least"] == 4.1
    assert found["unread_kinds"][0] == {"lines": 2, "example": "loading 0.5 of the data"}


def test_a_table_and_json_are_read_as_by_follow(folder: Path) -> None:
    (folder / "history.csv").write_text("step,loss,lr\n1,4.0,0.1\n2,2.0,0.1\n")
    (folder / "state.json").write_text(
        json.dumps({"log_history": [{"step": 10, "loss": 0.5}]}, indent=1)
    )
    said = run(folder, "parse", "history.csv", "state.json").stdout
    assert "history.csv: read as table, 3 lines\n  2 steps," in said
    assert "last: step 2: loss 2, lr 0.1\n" in said
    assert "state.json: read as trainer_state.json," in said
    assert "--rule" not in said


def test_the_standard_input_is_read(folder: Path) -> None:
    said = run(folder, "parse", "-", given="step=1 loss=0.5\r\nstep=2 loss=nan\r\n").stdout
    assert "the standard input: read as name=value" in said
    assert "2 steps" in said


def test_the_logs_of_a_run_are_those_of_its_ranks(folder: Path) -> None:
    logs = folder / "runs" / "20260101-000000-a" / "logs"
    logs.mkdir(parents=True)
    for rank in (0, 2, 10):
        (logs / f"rank-{rank}.log").write_text(LOG)
    said = run(folder, "parse", "runs/20260101-000000-a", "--json").stdout
    files = [json.loads(line)["file"] for line in said.splitlines()]
    assert [Path(name).name for name in files] == ["rank-0.log", "rank-2.log", "rank-10.log"]


def test_a_rule_of_the_command_line_comes_first(folder: Path) -> None:
    said = run(folder, "parse", "train.log", "--rule", "round {step}: cost {loss}", "--json").stdout
    found = json.loads(said)
    assert found["formats"] == {"nanoGPT": 3, "own rules": 1}
    assert (found["last"]["step"], found["last"]["values"]) == (7, {"loss": 0.25})


@pytest.mark.parametrize("file", ["rankboard.toml", "hosts.toml"])
def test_rules_stand_in_files(folder: Path, file: str) -> None:
    table = (
        "[[format]]\nname = 'mine'\nline = 'round {step}: cost {fitness}'\nkind = 'evaluation'\n"
    )
    (folder / file).write_text(table + (HOSTS if file == "hosts.toml" else ""))
    found = json.loads(run(folder, "parse", "train.log", "--json").stdout)
    assert found["formats"]["mine"] == 1
    assert found["last"]["kind"] == "evaluation"
    assert found["last"]["values"] == {"fitness": 0.25}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "[[format]]\nname = 'a'",
            "rankboard.toml: line 1: format 1: it has no line: write a regular",
        ),
        ("[[format]]\nline = 'round {step}'", 'format 1: line = "round {step}": it names no value'),
        (
            "[[format]]\nline = '({loss}'",
            'format 1: line = "({loss}": this is not a regular expression',
        ),
        ("[[format]]\nlines = '{loss}'", "format 1: unknown key 'lines': did you mean 'line'?"),
        (
            "[[format]]\nline = '{loss}'\nkind = 'x'",
            'format 1: kind = "x" is wrong: write "step", ',
        ),
        ("[format]\nline = '{loss}'", "[format]: write [[format]] with two brackets"),
        ("[cluster]\nname = 'a'", "unknown table 'cluster'; the only one here is [[format]]"),
    ],
)
def test_a_wrong_rule_is_said_with_its_place(folder: Path, table: str, message: str) -> None:
    (folder / "rankboard.toml").write_text(table)
    done = run(folder, "parse", "train.log")
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("parse", "nothing.log"), "nothing.log: cannot be read: No such file"),
        (("parse", "train.log", "--rule", "round"), "--rule 'round': it names no value"),
        (("parse", "."), "this folder has no logs/rank-*.log: name the log files"),
        (("formats", "torchtitn"), "no format is called 'torchtitn': did you mean 'torchtitan'?"),
    ],
)
def test_a_mistake_is_said(folder: Path, words: tuple[str, ...], message: str) -> None:
    done = run(folder, *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_formats_are_listed_each_with_a_line(folder: Path) -> None:
    said = run(folder, "formats").stdout.splitlines()
    assert len(said) == 1 + len(known_formats())
    assert any(line.startswith("nanoGPT  ") and "iter 1: loss 4.1916" in line for line in said)


def test_one_format_is_shown_with_its_samples_and_their_values(folder: Path) -> None:
    said = run(folder, "formats", "megatron-lm").stdout
    assert said.startswith("Megatron-LM\n\n")
    assert "-> step 42 of 500: consumed_samples 10752, step_seconds 0.8921" in said


def test_formats_as_json_hold_every_sample(folder: Path) -> None:
    said = run(folder, "formats", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in said] == [one.name for one in known_formats()]


def test_a_run_without_output_is_said_to_have_none(folder: Path) -> None:
    (folder / "runs" / "quiet" / "logs").mkdir(parents=True)
    (folder / "runs" / "quiet" / "plan.json").touch()
    found = run(folder, "parse", "runs/quiet")
    assert "quiet: its ranks have printed nothing" in found.stderr
    found = run(folder, "parse", "runs/quiet/logs")
    assert "name the log files" in found.stderr


def test_help_keeps_brackets(folder: Path) -> None:
    assert "[[format]]" in run(folder, "parse", "--help").stdout


def test_a_log_of_a_run_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    """It may lead to what has no end."""
    (tmp_path / "a-run" / "logs").mkdir(parents=True)
    (tmp_path / "a-run" / "logs" / "rank-0.log").symlink_to("/dev/zero")
    done = run(tmp_path, "parse", "a-run")
    assert done.returncode == 2
    assert "rank-0.log: is a link, or no file" in done.stderr
