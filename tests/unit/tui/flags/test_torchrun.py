"""Command lines that were written for torchrun: each flag does what it says, or the error says what
to write instead."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.run as real

from remote.cluster.hosts import Cluster, Host
from tests.kit.commands import call_rankboard
from training.agent import local_api
from tui.flags import torchrun
from tui.flags.policy import PolicyFlags
from tui.flags.selection import HostFlags
from tui.flags.torchrun import (
    ScriptLine,
    apply_to_host_flags,
    apply_to_hosts,
    apply_to_policy_flags,
    parse_script_line,
)
from tui.kit.exit import UsageError

LAB = Cluster("lab", (Host("node1", "10.0.0.1"), Host("node2", "10.0.0.2")))
LAUNCH = "python -m torch.distributed.launch"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a hosts file."""
    monkeypatch.chdir(tmp_path)


def line(text: str) -> ScriptLine:
    return parse_script_line(shlex.split(text))


def test_every_flag_of_torchrun_is_known() -> None:
    """Of the torch that is installed."""
    flags = {name for one in real.get_args_parser()._actions for name in one.option_strings}
    asked = {"-h", "--help", "--print-completion", "--print_completion"}
    assert {flag for flag in flags - asked if not torchrun.find_flag(flag)} == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train.py --lr 0.1 -m x", "train.py --lr 0.1 -m x"),
        ("-m pkg.train --nnodes 2", "-m pkg.train --nnodes 2"),
        ("torchrun --nproc-per-node 4 train.py --nproc-per-node 5", "train.py --nproc-per-node 5"),
        ("torchrun --nproc_per_node=4 -m pkg.train x", "-m pkg.train x"),
        ("/opt/bin/torchrun --nproc-per-node 4 ./a.sh", "./a.sh"),
        ("--standalone --no_python ./a.sh", "./a.sh"),
        ("--no-python ./a.py", "--no-python ./a.py"),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "train.py"),
        ("-m torch.distributed.run train.py", "train.py"),
        ("python -m pkg.train", "python -m pkg.train"),
        (f"{LAUNCH} --nproc_per_node 2 train.py -x", "train.py --local-rank={local_rank} -x"),
        (f"{LAUNCH} --use_env train.py -x", "train.py -x"),
        (
            "python -u -m torch.distributed.launch --nproc_per_node=2 train.py",
            "train.py --local-rank={local_rank}",
        ),
        ("python3.11 -Wignore -X dev -m torch.distributed.run -m pkg.train", "-m pkg.train"),
        ("/venv/bin/python -um torch.distributed.run train.py", "train.py"),
        ("python /venv/bin/torchrun train.py", "train.py"),
        ("torchrun --nproc-per-node 2 -- train.py -- -x", "train.py -- -x"),
        ("torchrun -- torchrun.py", "torchrun.py"),
        ("env X=1 torchrun train.py", "train.py"),
        ("uv run torchrun train.py", "train.py"),
        ("A=b /usr/bin/env C=d uv run python -m torch.distributed.run train.py", "train.py"),
        ("env X=1 python train.py", "env X=1 python train.py"),
        ("uv run train.py", "uv run train.py"),
        ("train.py --launcher torchrun", "train.py --launcher torchrun"),
    ],
)
def test_the_program_of_a_line(text: str, words: str) -> None:
    assert " ".join(line(text).words) == words


@pytest.mark.parametrize(
    ("text", "given", "meant"),
    [
        ("train.py", {}, {}),
        ("torchrun train.py", {}, {"local": 1}),
        ("torchrun train.py", {"hosts": "h"}, {"hosts": "h"}),
        ("torchrun --nproc-per-node 4 train.py", {}, {"local": 4}),
        ("torchrun --standalone train.py", {}, {"local": 1}),
        ("--nnodes=1 --nproc-per-node 2 train.py", {}, {"local": 2}),
        ("--nproc-per-node 2 train.py", {"local": 4}, {"local": 4, "slots": 2}),
        ("--nnodes 2 train.py", {"local": 4}, {"local": 4, "slots": 2}),
        ("--nnodes 2 --nproc-per-node 4 train.py", {}, {"num_hosts": 2}),
        ("--nnodes 1:3 train.py", {"hosts": "h.toml"}, {"hosts": "h.toml", "num_hosts": 3}),
        ("--standalone --nproc-per-node 3 x.py", {"hosts": "h"}, {"hosts": "h", "local": 3}),
    ],
)
def test_what_a_line_says_of_hosts(text: str, given: Any, meant: Any) -> None:
    assert apply_to_host_flags(line(text), HostFlags(**given)) == HostFlags(**meant)


@pytest.mark.parametrize("given", [{"local": 2}, {"local": 2, "slots": 1}, {"hosts": "h"}])
def test_a_number_of_ranks_that_is_none(given: Any) -> None:
    with pytest.raises(UsageError, match="--nproc-per-node 0: write a number from 1"):
        apply_to_host_flags(line("--standalone --nproc-per-node 0 x.py"), HostFlags(**given))


@pytest.mark.parametrize(
    ("visible", "ranks"), [("0", 1), ("2,GPU-5ef1,MIG-7", 3), ("1,-1,0", 1), ("-1", 5), ("", 5)]
)
def test_the_gpus_that_are_visible(
    visible: str, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(local_api, "usable_cores", lambda: 5.0)
    assert apply_to_host_flags(line("--nproc-per-node auto x.py"), HostFlags()).local == ranks


def test_gpus_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UsageError, match="gpu: this machine has no NVIDIA GPU: write a number"):
        apply_to_host_flags(line("--nproc-per-node gpu x.py"), HostFlags())


def test_torchrun_takes_flags_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("NPROC_PER_NODE", "3"), ("MAX_RESTARTS", "2"), ("NODE_RANK", "1")):
        monkeypatch.setenv(f"PET_{name}", value)
    assert line("torchrun x.py").flags == {"--nproc-per-node": "3", "--max-restarts": "2"}
    assert line("torchrun --nproc-per-node 4 x.py").flags["--nproc-per-node"] == "4"
    assert line("--nnodes 1 x.py").flags == {"--nnodes": "1"}


@pytest.mark.parametrize("nodes", ["0", "0:2", "2:0", "1:2:3", "two", "9" * 5000])
def test_a_number_of_nodes_that_is_none(nodes: str) -> None:
    with pytest.raises(UsageError, match="write a number from 1, or MIN:MAX"):
        apply_to_host_flags(line(f"--nnodes {nodes} x.py"), HostFlags(local=4))


def test_what_a_line_says_of_the_hosts_of_a_file() -> None:
    said = "--nproc-per-node 4 --role trainer --rdzv-id 7 --master-port 29501 --master-addr node1"
    made = apply_to_hosts(line(f"{said} --rdzv-backend c10d --tee 3 train.py"), LAB, local=False)
    env = (("ROLE_NAME", "trainer"), ("TORCHELASTIC_RUN_ID", "7"))
    assert [(one.slots, one.env) for one in made.hosts] == [(4, env), (4, env)]
    assert [one.master_port for one in made.hosts] == [29501, 0]
    endpoint = apply_to_hosts(line("--rdzv-endpoint 10.0.0.1:29502 x.py"), LAB, local=False)
    assert endpoint.hosts[0].master_port == 29502
    assert apply_to_hosts(line("train.py"), LAB, local=False) == LAB


PASTED = "torchrun --nnodes 2 --nproc-per-node 2 --node-rank 0 --master-addr node0 --log-dir x a.py"


def test_of_a_line_of_torchrun_one_note_says_what_is_ignored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pasted = line(f"RANK=3 A=b {PASTED}")
    assert pasted.variables == (("A", "b"),)
    made = apply_to_hosts(pasted, LAB, local=False)
    assert [(one.slots, one.env) for one in made.hosts] == [(2, ())] * 2
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith("rankboard: ignored: --node-rank 0, --master-addr node0: rankboard")
    assert "; --log-dir x: every rank's output" in note
    assert note.endswith("; RANK=3: it follows from a rank's place")


def test_without_torchrun_all_flags_that_mean_nothing_are_named_at_once() -> None:
    with pytest.raises(UsageError) as error:
        apply_to_hosts(line(PASTED.removeprefix("torchrun ")), LAB, local=False)
    assert [one.partition(":")[0] for one in str(error.value).splitlines()] == [
        "--node-rank 0, --master-addr node0",
        "--log-dir x",
    ]


def test_variables_before_the_program() -> None:
    made = line("OMP_NUM_THREADS=1 PET_NPROC_PER_NODE=3 torchrun a.py b=c")
    assert (made.words, made.flags) == (("a.py", "b=c"), {"--nproc-per-node": "3"})
    assert made.variables == (("OMP_NUM_THREADS", "1"),)
    wrapped = line("A=b env C=d PET_NPROC_PER_NODE=3 torchrun a.py")
    assert wrapped.env == (("A", "b"), ("C", "d"), ("PET_NPROC_PER_NODE", "3"))
    assert wrapped.flags == {"--nproc-per-node": "3"}
    assert line("A=b env C=d ./a.sh").env == (("A", "b"),)
    visible = line("CUDA_VISIBLE_DEVICES=0,2 torchrun --nproc-per-node gpu a.py")
    assert apply_to_host_flags(visible, HostFlags()).local == 2
    before = parse_script_line(("A=b", "torchrun", "x.py"), {"--nproc-per-node": "4"})
    assert (before.words, before.flags) == (("x.py",), {"--nproc-per-node": "4"})


FABRIC_ENV = (
    ("LT_CLI_USED", "1"),
    ("LT_DEVICES", "{local_world_size}"),
    ("LT_NUM_NODES", "{nodes}"),
)


def test_a_line_of_fabric_is_the_line_of_torchrun_that_it_executes() -> None:
    text = "--devices 2 --num_nodes=3 --strategy=ddp train.py --accelerator cpu --lr 1"
    flags = {"--nproc-per-node": "2", "--nnodes": "3"}
    env = (*FABRIC_ENV, ("LT_STRATEGY", "ddp"), ("LT_ACCELERATOR", "cpu"))
    expected = ScriptLine(("train.py", "--lr", "1"), flags, env, is_torchrun=True)
    for start in ("fabric run", "/venv/bin/fabric run model", "lightning run model"):
        assert line(f"{start} {text}") == expected
    assert line(f"A=b uv run fabric run {text}").env == (("A", "b"), *env)


def test_devices_of_fabric_that_are_no_number_leave_the_ranks_to_the_hosts() -> None:
    for devices in ("auto", "0,1"):
        assert line(f"fabric run --devices {devices} x.py").flags == {}
    assert line("fabric run x.py") == ScriptLine(("x.py",), {}, FABRIC_ENV, is_torchrun=True)


def test_ranks_that_do_not_divide_those_of_local() -> None:
    with pytest.raises(UsageError, match=r"--nproc-per-node 3 does not divide .* --local 2"):
        apply_to_host_flags(line("torchrun --nproc-per-node 3 x.py"), HostFlags(local=2))


def test_what_a_line_says_of_restarts() -> None:
    flags = apply_to_policy_flags(line("--max_restarts 3 --nnodes 1:2 x.py"), PolicyFlags())
    assert flags == PolicyFlags(max_restarts=3, min_nodes=1)
    assert apply_to_policy_flags(line("--nnodes 2 x.py"), PolicyFlags()) == PolicyFlags()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "torchrun --bogus 4 x.py",
            "--bogus is not a flag of torchrun: write your script after --",
        ),
        ("torchrun --nproc-per-node 4", "write your own script after --, as in"),
        ("torchrun --nproc-per-node", "needs a value"),
        ("''", "write your own script after --, as in"),
        (
            "accelerate launch --mixed x train.py --lr 1",
            r"write the program alone, -- train\.py --lr",
        ),
        ("mpirun -n 4 a.out", "mpirun starts ranks itself"),
        ("/usr/bin/mpirun -n 4 train.py x", r"mpirun starts .* -- train\.py x"),
        ("env X=1 srun train.py", "srun starts ranks itself"),
        ("python -u -m accelerate.commands.launch train.py", "accelerate.commands.launch starts"),
        ("fabric run x.py --devices", "--devices needs a value"),
        ("fabric run --bogus x.py", "--bogus is not a flag of torchrun"),
        ("python3 -m deepspeed.launcher.runner train.py", "deepspeed.launcher.runner starts"),
        ("/venv/bin/python /venv/bin/deepspeed train.py", "deepspeed starts ranks itself"),
    ],
)
def test_lines_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        line(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--node-rank 1 x.py", "rankboard starts all nodes from here"),
        ("--nnodes 2 --node-rank 0 x.py", "leave it out"),
        ("--master-addr other x.py", "the first host of hosts.toml, node1"),
        ("--rdzv-backend etcd x.py", "meet on the first host"),
        (
            "--nproc-per-node gpu x.py",
            r"before it contacts a host: leave the flag out, and write slots = 8",
        ),
        ("--nproc-per-node x x.py", "write a number"),
        ("--nproc-per-node 0 x.py", "write a number from 1"),
        ("--log-dir x x.py", "--runs-dir"),
        ("-r 3 x.py", "--redirects 3: leave it out: every rank's output is shown"),
        ("--rdzv-conf timeout=3 x.py", "--start-timeout"),
        ("--run-path x.py", "--run-path: rankboard does not support it: leave it out"),
        ("--shutdown-timeout 3 x.py", "ranks that do not end within seconds after SIGTERM are"),
    ],
)
def test_flags_without_a_meaning_here(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        apply_to_hosts(line(text), LAB, local=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--run --nproc-per-node 4 train.py", "rankboard --run -- --nproc-per-node 4 train.py"),
        ("--run --local 2 -m pkg.train", "rankboard --run --local 2 -- -m pkg.train"),
        ("--run --local 4 -- --nnodes 3 x.py", "--nnodes 3: does not divide"),
        ("--run --node 2", "--node: there is no such option: did you mean '--model'?"),
    ],
)
def test_flags_before_the_dashes(words: str, message: str) -> None:
    done = call_rankboard(*words.split())
    assert done.returncode == 2
    assert message in done.stderr


def test_flags_before_the_dashes_count() -> None:
    done = call_rankboard("--dry-run", "--nproc_per_node", "3", "--", "train.py")
    assert done.stdout.startswith("3 ranks on 1 host")
