"""The help of every command, and what mistyped commands and numbers are answered with. In this
process."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from remote.plan import serialize
from tests.kit.commands import Done, call_rankboard
from tests.kit.launches import RANKBOARD
from training import options, registry
from training.job import Job, JobError, field_groups, flag
from tui.commands.cli import COMMANDS, COMMON_FLAGS, make_whole_app

WITH_HELP = (*COMMANDS, "lab up", "lab rate", "config show", "config validate", "config schema")


def call(*words: str, width: int = 80) -> Done:
    """What `rankboard` answers."""
    return call_rankboard(*words, COLUMNS=str(width))


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("run",), "rankboard has no command 'run'. To start a run, write: rankboard --run"),
        (
            ("run", "--local", "4"),
            "rankboard has no command 'run'. To start a run, write: rankboard --run --local 4",
        ),
        (
            ("--local", "4", "start"),
            "rankboard has no command 'start'. To start a run, write: rankboard --run …",
        ),
        *(
            (
                (word,),
                f"rankboard has no command {word!r}. To list runs, write: rankboard ps, or "
                "rankboard runs for those recorded here",
            )
            for word in ("ls", "list", "status")
        ),
        (
            ("doctr",),
            "rankboard has no command 'doctr': did you mean 'doctor'? rankboard --help all lists "
            "all commands",
        ),
        (
            ("other.toml",),
            "rankboard has no command 'other.toml'. To use a hosts file, write: rankboard --hosts "
            "other.toml",
        ),
        (("kill",), "rankboard has no command 'kill'. rankboard --help all lists all commands"),
        (
            ("proone",),
            "rankboard has no command 'proone': did you mean 'parse'? rankboard --help all lists "
            "all commands",
        ),
        (
            ("lab", "ls"),
            "rankboard lab has no command 'ls'. rankboard lab --help lists all commands",
        ),
        (
            ("lab", "own"),
            "rankboard lab has no command 'own'. rankboard lab --help lists all commands",
        ),
        (
            ("lab", "stat"),
            "rankboard lab has no command 'stat': did you mean 'status'? rankboard lab --help "
            "lists all commands",
        ),
        (("5",), "'5' is not a command: a flag takes one value; see rankboard --help"),
        (
            ("--sync-option", "bucket_mb", "5"),
            "'5' is not a command. Write an option and its value as one word: --sync-option "
            "bucket_mb=5",
        ),
    ],
)
def test_a_command_that_does_not_exist(words: tuple[str, ...], answer: str) -> None:
    done = call(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"rankboard: {answer}\n")


@pytest.mark.parametrize(
    "words", [("train.py",), ("run", "train.py"), ("torchrun", "train.py"), ("python", "x")]
)
def test_a_program_of_the_user(words: tuple[str, ...]) -> None:
    done = call(*words)
    program = " ".join(words).removeprefix("run ")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "rankboard: To run your own script, put -- before it: rankboard --run -- " + program
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--run", "--local", "1", "--"), "write your own script after --"),
        (
            ("--run", "--local", "1", "--lr", "0.1", "--no-bias", "--", "x.py"),
            "--no-bias: there is no such option",
        ),
        (("--run", "--lr", "0.1", "--", "x.py"), "--lr: options of rankboard's own training"),
        (("--run", "--local", "1", "--cwd", "/"), "--cwd is for your own script"),
        (("--run", "--local", "1", "--no-watch"), "--no-watch is for your own script"),
    ],
)
def test_mistakes_with_a_program_of_the_user(words: tuple[str, ...], message: str) -> None:
    done = call(*words)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    "word",
    ["run", "ls", "list", "rm", "kill", "delete", "stp", "prun", "top", "train.py", "5", "remove"],
)
def test_no_mistake_is_answered_with_a_command_that_deletes(word: str) -> None:
    assert not re.search(r"\b(prune|stop)\b", call(word).stderr)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epochs", "0"), "--epochs 0: must be at least 1"),
        (("--steps", "0"), "--steps 0: must be at least 1"),
        (
            ("--slots", "0"),
            "--slots 0: give the number of ranks of each host, 1 or more, or leave it out",
        ),
        (
            ("--num-hosts", "0"),
            "--num-hosts 0: give the number of hosts, 1 or more, or leave it out",
        ),
    ],
)
def test_zero_is_a_mistake(words: tuple[str, ...], message: str) -> None:
    done = call("--dry-run", "--local", "4", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"rankboard: {message}\n")


def test_variables_before_a_script_are_set_for_every_rank() -> None:
    done = call("--dry-run", "--local", "2", "--", "LR=0.1", "train.py")
    rank_lines = [line for line in done.stdout.splitlines() if line.startswith("  rank ")]
    assert ["LR=0.1" in line.split() for line in rank_lines] == [True, True]


def test_a_dry_run_as_json() -> None:
    done = call("--dry-run", "--json", "--local", "2", "--steps", "3")
    plan = serialize.parse(done.stdout)
    assert (done.returncode, plan.world_size) == (0, 2)
    assert isinstance(plan.work, Job)
    assert (plan.work.steps, plan.work.epochs) == (3, None)
    assert '"epochs": null' in done.stdout


def test_no_ranks_are_a_mistake() -> None:
    done = call("--dry-run", "--local", "0")
    message = (
        "--local 0: give the number of ranks, 1 or more, or leave it out to use the hosts file"
    )
    assert (done.returncode, done.stderr) == (2, f"rankboard: {message}\n")


def test_a_rank_is_not_given_what_the_job_leaves_out() -> None:
    assert not {"--epochs", "--steps"} & set(Job().argv())
    assert Job.parse(Job().argv()) == Job()
    assert Job.parse(Job(steps=3).argv()) == Job(steps=3)
    assert Job(steps=3, lr=0.5).command_line() == (
        "python -m training --sync ddp --model lenet5 --dataset digits --steps 3 --lr 0.5"
    )
    with pytest.raises(JobError, match="--epochs -1: must be at least 1"):
        Job(epochs=-1)


@pytest.mark.parametrize("words", ["--help", "--help all", *(f"{one} --help" for one in WITH_HELP)])
def test_the_help_is_plain(words: str) -> None:
    done = call(*words.split())
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    # What a parser writes by itself: a type for a value, a bound, its own mark of a default, and a
    # default that only says that nothing is given. Each has to be said in words of ours, and what
    # 0 stands for as "(0: all)", not as "the same as 0"; "such as 0.95" is an example.
    unsaid = r"<[\w|]+>|x>=|\[default|default: (None|False|0)[)]|\bas 0(?![.\d])"
    assert not re.search(unsaid, done.stdout)
    assert "Examples:" in done.stdout
    assert re.search(r"Examples:\s*\n  rankboard ", done.stdout), "they are indented"
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", done.stdout).split())
    for default in re.findall(r"\(default: [^)]*\) \(default", text):
        raise AssertionError(default)


def test_the_short_help_has_what_most_people_need() -> None:
    done = call("--help")
    text = " ".join(done.stdout.replace("│", " ").split())
    assert len(done.stdout.splitlines()) <= 60
    for flag_name in COMMON_FLAGS:
        assert f" {flag_name} " in text
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", text)
    assert " --momentum " not in text
    assert "rankboard --help all shows all options" in text
    assert call("--local", "2", "-h").stdout == done.stdout
    assert call("-h", "all").stdout == call("--help", "all").stdout


def test_the_whole_help_has_every_flag_and_the_options_of_every_method(tmp_path: Path) -> None:
    env = {"COLUMNS": "80", "PATH": "", "HOME": str(tmp_path)}
    help = subprocess.run(
        [RANKBOARD, "--help", "all"], env=env, capture_output=True, text=True, check=True
    ).stdout
    words = " ".join(help.replace("│", " ").split())
    for name, group in field_groups().items():
        assert f"─ Job: {name} ─" in help
        assert all(f" {flag(setting)} " in words for setting in group)
    for method in registry.list_names("sync"):
        for option in options.declared_options(method):
            assert options.describe_options([option]).split()[0] in words
            assert option.help
    assert "--sync-option, with --sync ddp" in words
    assert "torchvision/NAME" in words
    assert "imagefolder:PATH" in words
    assert "rankboard [OPTIONS] -- PROGRAM [ARGS]... rankboard COMMAND [ARGS]..." in words
    assert "130 stopped by the user" in words


def test_bash_completes_commands_flags_and_choices() -> None:
    script = make_whole_app().generate_completion(shell="bash")
    lines = [
        script,
        "complete_words() {",
        '  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()',
        '  _rankboard rankboard; echo "${COMPREPLY[*]}"',
        "}",
        "complete_words rankboard pr",
        "complete_words rankboard --num",
        "complete_words rankboard --on-stall ''",
        "complete_words rankboard lab ''",
    ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        ["prune", "--num-hosts", "report stop restart", "up down status cut heal rate"],
    )


@pytest.mark.parametrize("flag", ["--nodes", "--num-hosts"])
def test_flags_of_earlier_versions_work(flag: str) -> None:
    done = call("--dry-run", "--local", "2", flag, "1")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_ends_a_command_without_a_traceback() -> None:
    line = f"{RANKBOARD} formats --json | head -c 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{", "")
