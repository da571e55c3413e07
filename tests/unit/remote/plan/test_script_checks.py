"""The place where the ranks of a script meet, as it fixes it itself, and whether it needs torch."""

from __future__ import annotations

import shlex

import pytest

from remote.plan.plan import FixedPort
from remote.plan.script_checks import find_fixed_place, imports_torch

COURSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--master-ip", "-m", default="10.10.1.1")
parser.add_argument("--port", "-p", default="9955")
parser.add_argument("--rank", "-r", type=int, default=0)
"""
JOINED = 'init_process_group("gloo", init_method=f"tcp://{args.master_ip}:6585", rank=args.rank)'
SETS = 'import os\nos.environ["MASTER_PORT"] = "29501"\nprint("12:30", ":80", "http://a:8080")'
WHOLE = 'dist.init_process_group("gloo", init_method="tcp://10.10.1.1:29502")'
SOURCES = {"course.py": COURSE, "src/joined.py": JOINED, "sets.py": SETS, "whole.py": WHOLE}


def ports_of(line: str) -> tuple[FixedPort, ...]:
    return find_fixed_place(shlex.split(line), lambda path: SOURCES.get(path, "")).ports


@pytest.mark.parametrize(
    ("line", "number", "argument"),
    [
        ("main.py --master-port 6585", 6585, "--master-port 6585"),
        ("main.py --master_port=6585", 6585, "--master_port=6585"),
        ("python -u course.py -p 1024 -r {rank}", 1024, "-p 1024"),
        (
            "main.py --dist-url tcp://10.10.1.1:23456",
            23456,
            "--dist-url tcp://10.10.1.1:23456",
        ),
        (
            "main.py --init-method tcp://{master_addr}:23456",
            23456,
            "--init-method tcp://{master_addr}:23456",
        ),
        ("bash -c 'cd src && python main.py --master-port 6585'", 6585, "--master-port 6585"),
        ("course.py -r {rank}", 9955, ""),
        ("bash -c 'cd src && python joined.py --rank $RANK'", 6585, ""),
        ("sets.py", 29501, ""),
        ("whole.py", 29502, ""),
    ],
)
def test_a_port_that_is_fixed(line: str, number: int, argument: str) -> None:
    assert ports_of(line) == (FixedPort(number, argument),)


@pytest.mark.parametrize(
    "line",
    [
        "main.py --lr 6585",
        "course.py -p {master_port}",
        "whole.py --init-method tcp://{master_addr}:{master_port}",
        "main.py --master-port 99999",
        "main.py --master-port",
        "main.py --init-method env://",
        "./run.sh 6585",
    ],
)
def test_no_port_is_fixed(line: str) -> None:
    assert ports_of(line) == ()


@pytest.mark.parametrize(
    ("source", "addresses"),
    [
        ('os.environ["MASTER_ADDR"] = "172.18.0.2"', ("172.18.0.2",)),
        ('MASTER_IP = "172.18.0.2"\nos.environ["MASTER_ADDR"] = MASTER_IP', ("172.18.0.2",)),
        ('os.environ["MASTER_ADDR"] = args.master_ip', ()),
        ('os.environ["MASTER_ADDR"] = "node0"', ()),
        ('os.environ["OTHER"] = "172.18.0.2"', ()),
    ],
)
def test_an_address_that_is_fixed(source: str, addresses: tuple[str, ...]) -> None:
    words = ["python", "train.py", "--rank", "{rank}"]
    assert find_fixed_place(words, lambda _: source).addresses == addresses
    given = [*words, "--master-ip", "{master_addr}"]
    assert find_fixed_place(given, lambda _: source).addresses == ()


@pytest.mark.parametrize(
    ("line", "source", "is_needed"),
    [
        ("train.py --lr 1", "import torch.nn as nn", True),
        ("python -u train.py", "def main():\n    from torch import nn", True),
        ("/opt/venv/bin/python train.py", "import torch", False),  # which may have it
        ("conda run -n mine python train.py", "import torch", False),
        ("train.py", "import torchmetrics, numpy", False),
    ],
)
def test_a_script_of_the_hosts_own_python_says_whether_it_needs_torch(
    line: str, source: str, is_needed: bool
) -> None:
    assert imports_torch(shlex.split(line), lambda _: source) is is_needed
