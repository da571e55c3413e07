"""What a user can do about a program that was not given what it needs."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from remote.plan.plan import Plan, Script
from remote.record import summary
from remote.run.output.missing_inputs import find_missing as find
from remote.run.state.types import Lack, MissingGpu, MissingOptions, MissingTorch, MissingVariable
from tests.kit.histories import History, from_file, plan, said
from training.agent.layout import NODE
from training.wire.host_events import Exited
from tui.run import failure_advice as hints
from tui.run import outcome

ENVIRON = (
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    '    token = os.environ["MY_TOKEN"]',
    '  File "<frozen os>", line 679, in __getitem__',
    "KeyError: 'MY_TOKEN'",
)
TOKEN = MissingVariable("MY_TOKEN")
NO_TORCH = (
    "Traceback (most recent call last):",
    "ModuleNotFoundError: No module named 'torch'",
)
NO_GPU = ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",)
SAID: dict[str, tuple[tuple[str, ...], Lack | None]] = {
    "os.environ": (ENVIRON, TOKEN),
    "with the prefix of torch": (tuple(f"[rank0]: {line}" for line in ENVIRON), TOKEN),
    "another key": (
        (ENVIRON[0], '  File "train.py", line 3', '    loss = found["loss"]', "KeyError: 'loss'"),
        None,
    ),
    "bash": (("train.sh: line 3: MY_TOKEN: unbound variable",), TOKEN),
    "sh": (("train.sh: 3: MY_TOKEN: parameter not set",), TOKEN),
    "bash, of its own": (("bash: line 1: MY_TOKEN: parameter null or not set",), TOKEN),
    "decouple": (
        (
            "decouple.UndefinedValueError: MY_TOKEN not found. Declare it as envvar or define a "
            "default value.",
        ),
        TOKEN,
    ),
    "environs": (('environs.exceptions.EnvError: Environment variable "MY_TOKEN" not set',), TOKEN),
    "django": (("ImproperlyConfigured: Set the MY_TOKEN environment variable",), TOKEN),
    "omegaconf": (
        ("InterpolationResolutionError: Environment variable 'MY_TOKEN' not found",),
        TOKEN,
    ),
    "argparse": (
        (
            "usage: course.py [-h] --rank RANK --num-nodes N data",
            "course.py: error: the following arguments are required: -r/--rank, --num-nodes, data",
        ),
        MissingOptions((("-r", "--rank"), ("--num-nodes",))),
    ),
    "click": (("Error: Missing option '--rank' / '-r'.",), MissingOptions((("--rank", "-r"),))),
    "NCCL": (NO_GPU, MissingGpu("NCCL")),
    "NCCL, with the prefix of torch": ((f"[rank0]: {NO_GPU[0]}",), MissingGpu("NCCL")),
    "torch": (NO_TORCH, MissingTorch("torch")),
    "a module of torch": (("ModuleNotFoundError: No module named 'torch.mine'",), None),
    "an argument alone": (("a.py: error: the following arguments are required: data",), None),
    "anything else": (("ValueError: MY_TOKEN",), None),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_program_lacks_is_read_from_its_last_words(name: str) -> None:
    words, lack = SAID[name]
    assert find(words) == lack


def failed(of: Plan, *words: str, code: int = 1) -> History:
    return History(of).rank(1, said(1, "\n".join(words)), Exited(1, code))


def advice(of: Plan, words: tuple[str, ...], **environment: str) -> str:
    cause = failed(of, *words).closed().cause
    assert cause is not None
    return hints.failure_advice(cause, of, environment)


SSH = plan(2, script=True)


def test_a_variable_of_the_users_shell_is_named_and_its_value_is_not() -> None:
    told = advice(SSH, ENVIRON, MY_TOKEN="s3cret")
    assert told.startswith("MY_TOKEN is set in your shell, but ranks do not get its variables")
    assert 'env_from = ["MY_TOKEN"]' in told
    assert "MY_TOKEN=…" in told
    assert "s3cret" not in told
    assert "lab.toml" in advice(from_file(SSH, "lab.toml"), ENVIRON, MY_TOKEN="1")


def test_nothing_is_said_of_a_variable_that_would_not_help() -> None:
    assert advice(SSH, ENVIRON) == "", "it is in no shell"
    passed = tuple(replace(host, env_from=("MY_TOKEN",)) for host in SSH.hosts)
    assert advice(replace(SSH, hosts=passed), ENVIRON, MY_TOKEN="1") == "", "it was passed"
    for transport in ("local", "slurm"):
        here = plan(2, script=True, transport=transport)
        assert advice(here, ENVIRON, MY_TOKEN="1") == "", "ranks have the variables of the shell"


def test_the_advice_stands_below_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    state = failed(SSH, *ENVIRON).closed()
    assert outcome.describe_cause(state)[1].startswith("what to do: MY_TOKEN is set in your shell")
    assert "s3cret" not in json.dumps(summary.summarize(state))
    assert summary.summarize(state)["cause"]["lack"] == {"name": "MY_TOKEN"}
    assert "lack" not in summary.summarize(failed(SSH, "ValueError: bad").closed())["cause"]


def test_ranks_without_torch_are_told_where_it_comes_from() -> None:
    assert advice(from_file(SSH, "hosts.toml"), NO_TORCH) == (
        "rankboard setup installs torch on all hosts; or set python in hosts.toml to one that has "
        "it"
    )
    workdir = f"runs/{SSH.run}/{NODE}"
    hosts = tuple(replace(host, transport="local", workdir=workdir) for host in SSH.hosts)
    here = advice(replace(SSH, hosts=hosts), NO_TORCH)
    assert "pip install" in here
    assert "rankboard[local]" in here


def options(*required: str, words: tuple[str, ...]) -> str:
    said = f"course.py: error: the following arguments are required: {', '.join(required)}"
    return advice(replace(SSH, work=Script(words)), (said,))


def test_a_script_that_wants_its_rank_gets_it_by_its_own_command() -> None:
    command = options(
        "--rank", "--num-nodes", "--master-ip", "--port", words=("course.py", "--lr", "0.1")
    )
    assert command == (
        "each rank gets its own place by placeholders; write -- course.py --lr 0.1 --rank '{rank}' "
        "--num-nodes '{world_size}' --master-ip '{master_addr}' --port '{master_port}'"
    )


PLACES = {
    ("-r",): "-r {rank}",
    ("-r/--rank",): "--rank {rank}",
    ("--rank", "--size"): "--rank {rank} --size {world_size}",
    ("--local_rank",): "--local_rank {local_rank}",
    ("--local_rank", "--world_size"): "--local_rank {rank} --world_size {world_size}",
    ("--node-rank", "--nnodes"): "--node-rank {rank} --nnodes {world_size}",
    ("--node-rank", "--local-rank"): "--node-rank {node_rank} --local-rank {local_rank}",
    ("--node-rank", "--nproc_per_node"): "--node-rank {rank} --nproc_per_node 1",
    ("--rank", "--data"): "--rank {rank}",
    ("--dist-url",): "--dist-url tcp://{master_addr}:{master_port}",
}


@pytest.mark.parametrize("required", PLACES, ids=" ".join)
def test_options_by_which_scripts_are_told_their_place(required: tuple[str, ...]) -> None:
    told = options(*required, words=("course.py",))
    assert shlex.split(told.partition(" -- ")[2]) == ["course.py", *PLACES[required].split()]


COMMANDS = {
    ("-m", "pkg.train", "a b"): ["-m", "pkg.train", "a b", "--rank", "{rank}"],
    ("--no-python", "./train.sh"): ["--no-python", "./train.sh", "--rank", "{rank}"],
    ("bash", "-c", "cd a && python b.py"): ["bash", "-c", "cd a && python b.py --rank {rank}"],
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_command_is_ready_to_be_copied(words: tuple[str, ...]) -> None:
    told = options("--rank", words=words)
    copied = shlex.split(told.partition("write ")[2])
    assert copied == ["--", *COMMANDS[words]]


def test_options_of_another_kind_are_the_users_own() -> None:
    assert options("--data", words=("course.py",)) == ""


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("train.py --lr 1", "python train.py --lr 1"),
        ("-m pkg.train", "python -m pkg.train"),
        ("python3 train.py", "python3 train.py"),
        ("--no-python ./train.py", "./train.py"),
        ("./train.sh", "./train.sh"),
    ],
)
def test_a_single_rank_that_wants_nccl_can_start_without_a_group(line: str, command: str) -> None:
    single = plan(1, script=True)
    history = History(replace(single, work=Script(tuple(shlex.split(line)))))
    state = history.rank(0, said(0, *NO_GPU), Exited(0, 1)).closed()
    assert state.cause is not None
    told = hints.failure_advice(state.cause, state.plan, {})
    assert "write gloo there" in told
    assert told.endswith(f"write -- env -u RANK {command}")


def test_several_ranks_that_want_nccl_are_told_of_gloo() -> None:
    told = advice(SSH, NO_GPU)
    assert told == "NCCL needs GPUs: if the script has an option for its backend, write gloo there"
