"""The program that the words of a script lead to."""

from __future__ import annotations

import shlex

import pytest

from remote.plan.main_program import MainProgram, find_main_program
from remote.plan.plan import Script


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("train.py --lr 1", MainProgram("file", "train.py")),
        ("-m pkg.train", MainProgram("module", "pkg.train")),
        ("./run.sh", MainProgram("command", "./run.sh")),
        ("--no-python ./a.py", MainProgram("command", "./a.py")),
        ("/opt/python3 train.py", MainProgram("command", "/opt/python3")),
        ("bash run.sh 2a 4", MainProgram("file", "run.sh")),
        ("bash -ex jobs/run.sh -c", MainProgram("file", "jobs/run.sh")),
        ("bash -o pipefail run.sh", MainProgram("command", "bash")),
        ("bash", MainProgram("command", "bash")),
        ("bash -c 'python main.py --rank $RANK'", MainProgram("file", "main.py")),
        ("bash -ec 'mkdir -p out; python3 -u main.py'", MainProgram("file", "main.py")),
        ("env A=1 sh -c 'B=2 exec python -m pkg.main'", MainProgram("module", "pkg.main")),
        ("env -u RANK --unset RANK -i A=1 python train.py", MainProgram("file", "train.py")),
        ("env -u RANK ./run.sh", MainProgram("command", "./run.sh")),
        ("env -u", MainProgram("command", "")),
        ("bash -c 'time env -u RANK B=2 python train.py'", MainProgram("file", "train.py")),
        (
            "bash -c 'cd src && cd b; python main.py | tee log'",
            MainProgram("file", "main.py", "src/b"),
        ),
        ("bash -c 'if [ $RANK = 0 ]; then python a.py; fi'", MainProgram("file", "a.py")),
        ("bash -c 'torchrun --nproc-per-node 4 train.py'", MainProgram("file", "train.py")),
        ("bash -c 'torchrun --nproc-per-node 4 -m pkg.train'", MainProgram("module", "pkg.train")),
        ("bash -c 'python -m torch.distributed.run train.py'", MainProgram("file", "train.py")),
        ("bash -c 'python -m torch.distributed.run -m a.b'", MainProgram("module", "a.b")),
        ("bash -c 'cp a.py b.py && python c.py'", MainProgram("file", "c.py")),
        ("bash -c 'python $SCRIPT.py'", MainProgram("file", "")),
        ("bash -c 'make train'", MainProgram("command", "bash")),
    ],
)
def test_the_program_of_a_line(line: str, program: MainProgram) -> None:
    assert find_main_program(shlex.split(line)) == program


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("bash -c 'cd part2a && python main.py --rank $RANK'", "main"),
        ("bash -c 'torchrun --nproc-per-node 4 src/train.py'", "train"),
        ("bash -c 'make train'", "bash"),
        ("bash jobs/run.sh 2a", "run"),
        ("env -u RANK python train.py", "train"),
    ],
)
def test_a_run_is_named_after_its_script_whatever_starts_it(line: str, name: str) -> None:
    assert Script(tuple(shlex.split(line))).stem == name
