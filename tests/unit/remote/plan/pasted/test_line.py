"""Command lines that were typed on one node: which options differ from rank to rank."""

from __future__ import annotations

import shlex

import pytest

from remote.plan.pasted.line import PastedLine, find_pasted_line

COURSE = """
import argparse
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--master-ip", "-m", default="10.10.1.1")
parser.add_argument("--num-nodes", "-n", type=int, default=4, help="the number of nodes")
parser.add_argument("--rank", "-r", type=int, default=0, help="rank of node")
parser.add_argument("--epochs", "-e", type=int, default=1)
args = parser.parse_args()
dist.init_process_group("gloo", rank=args.rank, world_size=args.num_nodes)
"""
SPAWNS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('-n', '--nodes', default=1, type=int)
parser.add_argument('-np', '--num_proc', default=1, type=int, help='number of procs per node')
parser.add_argument('-nr', '--local_rank', default=0, type=int, help='ranking within the nodes')
parser.add_argument('-a', '--address', default="localhost")
parser.add_argument('-p', '--port', default="9955")
parser.add_argument('-i', '--iterations', type=int, default=10000)
"""
GLOBAL = """
import argparse, torch.distributed as dist
def get_rank():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "-l", type=int, default=0)
    return parser.parse_args().local_rank
dist.init_process_group(backend="gloo", rank=get_rank(), world_size=4)
"""
LAUNCHED = """
import argparse, torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
dist.init_process_group("gloo", init_method="env://")
"""
URL = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument('--dist-url', default='tcp://224.66.41.62:23456')
parser.add_argument('--world-size', default=-1, type=int, help='number of nodes')
parser.add_argument('--rank', default=-1, type=int, help='node rank for distributed training')
rank = int(os.environ["RANK"])
"""
HELP = """
parser.add_argument("-w", help="number of processes")
parser.add_argument("-k", dest="k", help="global rank")
parser.add_argument("-h2", dest="master_addr")
parser.add_argument("-b", "--big", action="store_true", help="the rank of this")
"""
MATRIX = """
parser.add_argument("--rank", type=int, default=8)
parser.add_argument("--lora-rank", dest="rank2", help="rank of the low-rank matrices")
"""
ELSEWHERE = "from options import get_parser\nargs = get_parser().parse_args()\n"
SOURCES = {
    "course.py": COURSE,
    "master/course.py": COURSE,
    "slave/course.py": COURSE,
    "spawns.py": SPAWNS,
    "global.py": GLOBAL,
    "launched.py": LAUNCHED,
    "url.py": URL,
    "help.py": HELP,
    "matrix.py": MATRIX,
    "pkg/train.py": ELSEWHERE,
    "pkg/options.py": COURSE.replace('"-m"', '"-x"'),
    "broken.py": "print 'of another Python'",
}


def find(line: str, *, is_one_per_host: bool = True) -> PastedLine | None:
    return find_pasted_line(
        shlex.split(line), lambda path: SOURCES.get(path, ""), is_one_per_host=is_one_per_host
    )


REWRITTEN = {
    # As the course has it, in any way to write an option.
    "course.py --master-ip 10.1.1.1 --num-nodes 4 --rank 0": (
        "course.py --master-ip {master_addr} --num-nodes {world_size} --rank {rank}"
    ),
    "python course.py -m 10.1.1.1 -n4 -r0 -e 3": (
        "python course.py -m {master_addr} -n{world_size} -r{rank} -e 3"
    ),
    "./course.py --master-ip=node0 --num=4 --rank=2": (
        "./course.py --master-ip={master_addr} --num={world_size} --rank={rank}"
    ),
    # A program of its own for node 0, and one for the others beside it.
    "python master/course.py -r 0 -n 4 -m 10.1.1.1": (
        "python {rank:master:slave}/course.py -r {rank} -n {world_size} -m {master_addr}"
    ),
    # What node 0 can leave out: the default of each is that of its author's nodes.
    "course.py -r 0 -e 3": (
        "course.py -r {rank} --num-nodes {world_size} --master-ip {master_addr} -e 3"
    ),
    "course.py --master-ip 10.1.1.1": (
        "course.py --master-ip {master_addr} --rank {rank} --num-nodes {world_size}"
    ),
    # A process that spawns others is a node, wherever it is; how many it spawns is its own.
    "spawns.py -n 3 -np 2 -a 10.1.1.1 -p 9955 -i 9 -nr 0": (
        "spawns.py -n {world_size} -np 2 -a {master_addr} -p {master_port} -i 9 -nr {rank}"
    ),
    "global.py -l 0": "global.py -l {rank}",
    "url.py --dist-url tcp://10.0.0.1:2345 --world-size 2 --rank 0 data": (
        "url.py --dist-url tcp://{master_addr}:{master_port} --world-size {world_size} "
        "--rank {rank} data"
    ),
    "help.py -w 4 -k 0 -h2 10.1.1.1 -b 0": (
        "help.py -w {world_size} -k {rank} -h2 {master_addr} -b 0"
    ),
    "-m pkg.train -x 10.1.1.1 --rank 0": (
        "-m pkg.train -x {master_addr} --rank {rank} --num-nodes {world_size}"
    ),
    # -m is an option of Python here, and one of the script there.
    "python -m course -m 10.1.1.1 -n 4 -r 0": (
        "python -m course -m {master_addr} -n {world_size} -r {rank}"
    ),
    # By well-known names, where the source is not here or says nothing.
    "broken.py --rank 0 --world_size 4 --port 1234 -n 4 --size 9": (
        "broken.py --rank {rank} --world_size {world_size} --port {master_port} -n 4 --size 9"
    ),
    "./train --local_rank 0 --world_size 4 --master_ip tcp://10.1.1.1": (
        "./train --local_rank {rank} --world_size {world_size} --master_ip tcp://{master_addr}"
    ),
    "x.py --node_rank 0 --local_rank 0 --nnodes 2 --nproc_per_node 4 --init-method tcp://a:1": (
        "x.py --node_rank {node_rank} --local_rank {local_rank} --nnodes {nodes} "
        "--nproc_per_node {local_world_size} --init-method tcp://{master_addr}:{master_port}"
    ),
    "x.py --rank 0 --local_rank 0 --nnodes 2": (
        "x.py --rank {rank} --local_rank {local_rank} --nnodes {nodes}"
    ),
}


@pytest.mark.parametrize("line", REWRITTEN)
@pytest.mark.parametrize("is_one_per_host", [True, False])
def test_a_line_of_one_node_reads_for_all_ranks(line: str, is_one_per_host: bool) -> None:
    pasted = find(line, is_one_per_host=is_one_per_host)
    assert pasted
    assert " ".join(pasted.words) == REWRITTEN[line]


@pytest.mark.parametrize(
    "line",
    [
        "course.py -e 3",
        "course.py --rank {rank} --num-nodes 4 --master-ip 10.1.1.1",
        "course.py --rank $RANK --num-nodes 4",
        "matrix.py --rank 8",
        "matrix.py --rank 0 --lora-rank 0",
        "x.py --rank 8 --alpha 0",
        "x.py --local_rank -1 --local_rank=-1",
        "url.py --dist-url env:// --world-size 2",
        "url.py --dist-url tcp://10.0.0.1:2345",
        "launched.py --local_rank 0",
        "x.py -r 0 -nr 0 -n 4 -p 80 -a 10.1.1.1",
        "x.py --master-ip 10.1.1.1 --world-size 4",
        "./train.sh 0 4",
        "x.py --rank",
    ],
)
def test_a_line_that_all_ranks_can_have_stays(line: str) -> None:
    assert find(line) is None


def test_a_local_rank_is_the_same_where_each_host_has_one() -> None:
    pasted = find("launched.py --local_rank 0", is_one_per_host=False)
    assert pasted
    assert pasted.words == ("launched.py", "--local_rank", "{local_rank}")


def test_it_is_named_what_all_ranks_would_share() -> None:
    shared = [find(line) for line in ("course.py -r 0", "course.py --rank=0", "course.py -n 4")]
    assert [pasted and pasted.shared for pasted in shared] == ["-r 0", "--rank=0", ""]


def test_workers_of_its_own_are_named_where_a_host_has_several_ranks() -> None:
    line = "spawns.py -n 3 -np 2 -nr 0"
    named = [find(line, is_one_per_host=is_one_per_host) for is_one_per_host in (True, False)]
    assert [pasted and pasted.own_workers for pasted in named] == ["", "-np 2"]
    pasted = find("spawns.py -n 3 -np 1 -nr 0", is_one_per_host=False)
    assert pasted
    assert pasted.own_workers == ""


SHELL = {
    "python course.py --rank 0": (
        "python course.py --rank {rank} --num-nodes {world_size} --master-ip {master_addr}"
    ),
    "mkdir -p out; cd pkg && exec python train.py --rank 0 -n 4 -x 'a' | tee \"o u t\" 2>&1": (
        "mkdir -p out; cd pkg && exec python train.py --rank {rank} -n {world_size} "
        '-x {master_addr} | tee "o u t" 2>&1'
    ),
    "python course.py \\\n  --rank 0 -n 4 \\\n  -m $IP": (
        "python course.py \\\n  --rank {rank} -n {world_size} \\\n  -m $IP"
    ),
}


@pytest.mark.parametrize("text", SHELL)
def test_the_text_of_a_shell_is_rewritten_in_place(text: str) -> None:
    pasted = find(f"bash -c {shlex.quote(text)}")
    assert pasted
    assert pasted.words == ("bash", "-c", SHELL[text])


@pytest.mark.parametrize("text", ["python course.py --rank $RANK", "echo it's; x.py --rank 0 '"])
def test_a_text_of_a_shell_may_stay(text: str) -> None:
    pasted = find(f"bash -c {shlex.quote(text)}")
    assert pasted is None or "{rank}" in pasted.words[2]
