"""Placeholders for the place of a rank: in words, in code, in variables and folders."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from remote.cluster.hosts import PLACE, Host
from remote.plan import placeholders
from remote.plan.dry_run import dry_run
from remote.plan.place import place
from remote.plan.placeholders import PLACEHOLDERS, fill, fill_words
from remote.plan.plan import Plan, Script, with_folders
from tests.kit.agents import ROOT
from training.wire.commands import Placement

VALUES: placeholders.Values = {
    placeholders.RANK: 3,
    placeholders.LOCAL_RANK: 1,
    placeholders.WORLD_SIZE: 4,
    placeholders.MASTER_ADDR: "10.0.0.1",
}


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("{rank}", "3"),
        ("--rank={rank}", "--rank=3"),
        ("tcp://{master_addr}:29500", "tcp://10.0.0.1:29500"),
        ("${rank} ${RANK} $RANK,$LOCAL_RANK", "3 3 3,1"),
        ('{"rank":{rank}}', '{"rank":3}'),
        # The number of a place chooses one of several texts; the last one is for all others.
        ("{rank:master:slave}/a.py", "slave/a.py"),
        ("{local_rank:a:b:c}", "b"),
        ("--lora={rank:8} {rank:8,alpha:16} {master_addr:a:b}",) * 2,
        # What is none stays: JSON, format strings, other variables, names without a value.
        ('{"a": {x}, "rank": 1}', '{"a": {x}, "rank": 1}'),
        ("{{rank}} {step:04d} {RANK} {}", "{{rank}} {step:04d} {RANK} {}"),
        ("$RANKS $rank ${HOME} $HOME", "$RANKS $rank ${HOME} $HOME"),
        ("{master_port}", "{master_port}"),
    ],
)
def test_a_word_has_the_values_of_its_rank(word: str, filled: str) -> None:
    assert fill(word, VALUES) == filled


@pytest.mark.parametrize(
    ("words", "index"),
    [
        (("bash", "-c", "TEXT"), 2),
        (("/bin/sh", "-e", "-c", "TEXT", "x"), 3),
        (("env", "A=b", "bash", "-o", "pipefail", "-lc", "TEXT"), 6),
        (("python", "-c", "TEXT", "x"), 2),
        (("bash", "run.sh", "-c", "x"), -1),
        (("python", "train.py", "-c", "x"), -1),
        (("train.py", "-c", "x"), -1),
        (("bash", "-c"), -1),
    ],
)
def test_code_is_found_that_a_program_runs(words: tuple[str, ...], index: int) -> None:
    assert placeholders.find_code(words) == index


def test_code_keeps_its_own_variables() -> None:
    text = "for rank in $RANK ${RANK}; do x.py {rank} ${rank}; done"
    filled = fill_words(("bash", "-c", text, "$RANK"), VALUES)
    assert filled[2:] == ("for rank in $RANK ${RANK}; do x.py 3 ${rank}; done", "3")


def test_each_variable_of_a_place_has_a_placeholder() -> None:
    assert {one.variable for one in PLACEHOLDERS if one.variable} == PLACE


def test_the_documentation_has_every_placeholder() -> None:
    text = (ROOT / "docs" / "reference" / "placeholders.md").read_text()
    rows = re.findall(r"^\| `\{(\w+)\}` \| (?:`(\w+)`)? *\| (.*) \|$", text, re.MULTILINE)
    assert rows == [(one.name, one.variable, one.meaning) for one in PLACEHOLDERS]


# In a plan ----------------------------------------------------------------------------------------

NODES = (
    Host("a", "10.0.0.1", slots=2, cwd="/work/{host}/{rank}", env=(("OUT", "{host}-$RANK"),)),
    Host("b", "10.0.0.2", cwd="/work/{host}/{rank}"),
)


def script_plan(*words: str, hosts: tuple[Host, ...] = NODES) -> Plan:
    return with_folders(Plan("a-run", hosts, Script(words)))


def placed(of: Plan) -> list[Placement]:
    return [one for ranks in place(of, [None] * 2, "10.0.0.1", 29_500) for one in ranks]


def test_every_rank_has_values_of_its_own() -> None:
    line = "./a {rank} {local_rank} {node_rank} {nodes} {world_size} {local_world_size} {host}"
    of = script_plan(*line.split(), "{master_addr}:{master_port}")
    assert [" ".join(one.argv) for one in placed(of)] == [
        "./a 0 0 0 2 3 2 a 10.0.0.1:29500",
        "./a 1 1 0 2 3 2 a 10.0.0.1:29500",
        "./a 2 0 1 2 3 1 b 10.0.0.1:29500",
    ]
    assert [dict(one.env).get("OUT") for one in placed(of)] == ["a-0", "a-1", None]


def test_ranks_may_have_folders_of_their_own() -> None:
    of = script_plan("./a")
    assert [one.cwd for one in placed(of)] == ["/work/a/0", "/work/a/1", ""]
    # Files are looked for in the folder that they share.
    assert [of.cwd(0), of.cwd(1)] == ["/work/a", "/work/b/2"]


def test_a_dry_run_has_the_values_of_each_rank() -> None:
    shown = dry_run(script_plan("./a", "{rank}"))
    assert re.findall(r"^    (.*)$", shown, re.MULTILINE) == [
        "cd /work/a/0 && ./a 0",
        "cd /work/a/1 && ./a 1",
        "./a 2",
    ]
    same = tuple(replace(host, cwd="/work") for host in NODES)
    assert not re.findall(r"^    ", dry_run(script_plan("./a", hosts=same)), re.MULTILINE)
