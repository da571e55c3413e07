"""All mistakes in a command line are told at once, in words of our own. In this process."""

from __future__ import annotations

import json
import re
from contextlib import chdir
from pathlib import Path

import pytest

from tests.kit.commands import call_rankboard

FOUR = (
    *("--model", "vgg12", "--sync", "allreduce", "--dataset", "cifar100"),
    *("--sync-option", "bucket=3"),
)
TOLD = (
    "--sync allreduce: unknown sync method: did you mean 'all_reduce'?",
    "--model vgg12: unknown model: did you mean 'vgg11'?",
    "--dataset cifar100: unknown data set: did you mean 'cifar10'?",
    "--sync-option bucket=3: no sync method has an option 'bucket': did you mean 'bucket_mb'?",
)


def mistakes(folder: Path, *words: str) -> list[str]:
    """The mistakes that `rankboard` tells of these words, in this folder."""
    with chdir(folder):
        done = call_rankboard(*words)
    assert done.returncode == 2
    if "--json" not in words:
        assert done.stdout == ""
    assert list(folder.iterdir()) in ([], [folder / "hosts.toml"]), "nothing was started"
    return [line.removeprefix("rankboard: ") for line in done.stderr.splitlines()]


@pytest.mark.parametrize("front", [(), ("--run",), ("--dry-run",), ("doctor",)])
def test_all_mistakes_in_a_job_are_told_at_once(front: tuple[str, ...], tmp_path: Path) -> None:
    told = mistakes(tmp_path, *front, *FOUR)
    assert [line.partition(" (known: ")[0] for line in told[:-1]] == list(TOLD)
    assert told[-1].startswith("hosts.toml: no such file"), "the missing file comes last"
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "a"\n')
    assert mistakes(tmp_path, *front, *FOUR) == told[:-1]


def test_mistakes_in_all_kinds_of_flags_are_told_at_once(tmp_path: Path) -> None:
    words = (
        *("--run", "--lr", "fast", "--steps", "1.5", "--momentum", "-1", "--foo", "3"),
        *("--on-nan", "stp", "--max-restarts", "x", "--start-timeout", "soon", "--compile=perhaps"),
        *("--local", "2", "--slots", "3", "--num-hosts", "0", "--cpus", "1"),
        *("--notify", "no-such-command", "--name", "last", "--model", "vgg12", "--runs-dir"),
    )
    told = [line.partition(" (known: ")[0] for line in mistakes(tmp_path, *words)]
    assert len(told) == len(set(told))
    assert set(told) == {
        "--runs-dir: its value is missing: write --runs-dir PATH",
        "--foo: there is no such option: did you mean '--follow'?",
        "--compile: it takes no value: write --compile or --no-compile alone",
        "--on-nan stp: write warn or stop: did you mean 'stop'?",
        "--start-timeout soon: write a number of seconds, such as 60, 0 or more",
        "--max-restarts x: write a whole number, 0 or more",
        "--steps 1.5: write a whole number",
        "--lr fast: write a number, such as 0.1",
        "--notify: there is no command no-such-command",
        "--name 'last': give a name in one line and without a slash, such as 'baseline'; last "
        "stands for the newest run",
        "--num-hosts 0: give the number of hosts, 1 or more, or leave it out",
        "--slots 3 does not divide the 2 ranks of --local: give one of 1, 2",
        "--model vgg12: unknown model: did you mean 'vgg11'?",
        "--momentum -1.0: must be at least 0",
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--local", "x"), ["--local x: write a whole number"]),
        (
            ("--on-stall", "restart", "--max-restarts", "few", "--local", "1"),
            ["--max-restarts few: write a whole number, 0 or more"],
        ),
    ],
)
def test_what_follows_from_a_wrong_flag_is_no_mistake(
    words: tuple[str, ...], told: list[str], tmp_path: Path
) -> None:
    assert mistakes(tmp_path, "--run", *words) == told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("logs", "RUN is missing: see rankboard logs --help"),
        ("logs a b", "b: one argument too many: see rankboard logs --help"),
        ("logs last --tail x", "--tail x: write a whole number, 0 or more"),
        ("export last", "--to is missing: write tensorboard, csv, parquet, numpy or json"),
        (
            "serve last --port",
            "--port: its value is missing: write a whole number, from 0 to 65535",
        ),
        ("serve last --port 99999", "--port 99999: write a whole number, from 0 to 65535"),
        ("logs -x last", "-x: there is no such option: see rankboard logs --help"),
        (
            "study x --run --until-stable a",
            "--until-stable a: write a number of percent, such as 5",
        ),
        ("lab up --hots", "--hots: there is no such option: did you mean '--hosts'?"),
        ("lab up --foo", "--foo: there is no such option: see rankboard lab up --help"),
        ("--model --lr 0.1 --local 1", "--model: its value is missing: write --model NAME"),
        ("--lr fast ps", "--lr fast: write a number, such as 0.1"),
        (
            "study four-ways --run --lr 0.1 --sync foo --local 2",
            "--sync foo: unknown sync method: write",
        ),
    ],
)
def test_mistakes_have_words_of_our_own(words: str, told: str, tmp_path: Path) -> None:
    (line,) = mistakes(tmp_path, *words.split())
    assert line.startswith(told)


def test_all_mistakes_in_a_command_are_told_at_once(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "ps", "--jsno", "--live=3", "x") == [
        "--jsno: there is no such option: did you mean '--json'?",
        "--live: it takes no value: write --live alone",
        "x: one argument too many: see rankboard ps --help",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "doctor --local 2 --model vgg12 --lr fast --slots 0",
            ["--lr fast", "--model vgg12", "--slots 0"],
        ),
        ("doctor --local x --model vgg12", ["--local x", "--model vgg12"]),
        ("study nodes --model vgg12 --lr fast --json", ["--lr fast", "--model vgg12", "--json"]),
        ("study --lr fast", ["--lr fast"]),
    ],
)
def test_so_are_those_in_the_job_of_another_command(
    words: str, told: list[str], tmp_path: Path
) -> None:
    lines = mistakes(tmp_path, *words.split())
    assert len(lines) == len(told)
    assert all(line.startswith(one) for line, one in zip(lines, told, strict=True))


def test_help_is_given_in_spite_of_mistakes() -> None:
    done = call_rankboard("--lr", "fast", "--help")
    assert done.returncode == 0
    assert re.search(r"Usage: +rankboard \[OPTIONS\]", done.stdout)


def test_mistakes_in_the_fit_of_a_job_are_told_at_once(tmp_path: Path) -> None:
    words = "--dry-run --local 4 --batch-size 2 --model vgg11 --image-size 8"
    assert [line.partition(" ")[0] for line in mistakes(tmp_path, *words.split())] == [
        "--model",
        "--batch-size",
    ]


def test_programs_that_read_json_get_mistakes_with_fields(tmp_path: Path) -> None:
    with chdir(tmp_path):
        done = call_rankboard("--run", "--json", "--local", "2", "--epohcs", "3", "--lr", "fast")
        unknown, wrong = map(json.loads, done.stdout.splitlines())
    assert (unknown["event"], unknown["host"], unknown["rank"]) == ("mistake", None, None)
    assert (unknown["flag"], wrong["flag"], wrong["value"]) == ("--epohcs", "--lr", "fast")
    assert "--epochs" in unknown["problem"]
    assert done.stderr.count("rankboard: --") == 2, "people are told as well"


@pytest.mark.parametrize(
    "words",
    [
        ("events", "nothing"),
        ("events", "last", "--event", "stepp"),
        ("events", "--run"),
        ("stop", "--json", "nothing"),
        ("export", "--json", "nothing", "--to", "json"),
        ("compare", "--json", "nothing", "last"),
        ("attach", "--run", "--json", "nothing"),
        ("runs", "--json", "loss<"),
    ],
)
def test_so_do_those_of_other_commands(words: tuple[str, ...], tmp_path: Path) -> None:
    with chdir(tmp_path):
        done = call_rankboard(*words)
    assert done.returncode == 2
    mistakes = [json.loads(line) for line in done.stdout.splitlines()]
    assert {mistake["event"] for mistake in mistakes} == {"mistake"}
    assert all(mistake["problem"] or mistake["hint"] for mistake in mistakes)


def test_nobody_else_gets_json(tmp_path: Path) -> None:
    """Also after a command that printed JSON, in the same process."""
    with chdir(tmp_path):
        call_rankboard("events", "nothing")
        # Behind -- stands a script with flags of its own.
        words = ("--run", "--local", "2", "--lr", "1", "--", "train.py", "--json")
        assert (call_rankboard(*words).stdout, call_rankboard("stop", "nothing").stdout) == ("", "")
