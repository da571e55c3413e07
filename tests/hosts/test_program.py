"""A program of the user's own, before it starts: whether it is there, and what frameworks miss."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.doctor.doctor import FAILED, OK, WARNING, check_connections, check_facts
from remote.events import CheckFinished
from remote.launch import Launcher
from remote.plan import frameworks, needs
from remote.plan.plan import FixedPlace, FixedPort, Plan, PlanError, Script
from remote.transport.local import LocalTransport
from tests.kit.checks import hello
from training.agent.host import program as programs
from training.agent.ranks.ranks import ERROR_BYTES, read_error_file
from training.wire.host_events import Reserved


def plan(words: str, cwd: Path | str) -> Plan:
    host = Host("node1", "10.0.0.1", cwd=str(cwd))
    return Plan("run", (host,), Script(tuple(words.split())))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "plain.sh").write_text("")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "pkg").mkdir()
    return tmp_path


def check_program(of: Plan, lack: str) -> CheckFinished:
    """What the check of the program finds, if the host reports that it lacks this."""
    found = check_facts(of, [replace(hello(0), program_lacks=lack)], [0.0])
    return next(check for check in found if check.check == "program")


@pytest.mark.parametrize(
    ("words", "lack"),
    [
        ("train.py --lr 1", ""),
        ("python train.py", ""),
        ("python -c pass", ""),
        ("./run.sh", ""),
        ("--no-python ./run.sh", ""),
        ("-m pkg.train", ""),
        ("-m json.tool", ""),
        ("true", ""),
        ("trian.py", programs.FILE),
        ("python trian.py", programs.FILE),
        ("python -u train.py", ""),
        ("python -u -X dev trian.py", programs.FILE),
        ("python3 -m pkg.train", ""),
        ("python -um no_such_package.x", programs.MODULE),
        ("./nothing", programs.FILE),
        ("./plain.sh", programs.EXECUTE),
        ("-m no_such_package.x", programs.MODULE),
        ("no-such-command", programs.COMMAND),
        ("./pkg", programs.NO_FILE),
        ("pkg", programs.NO_FILE),
    ],
)
def test_what_a_host_lacks(words: str, lack: str, folder: Path) -> None:
    """It is looked for on the host, and told with what to do."""
    of = plan(words, folder)
    found = programs.check_script(needs.needs_of_host(of, 0)["program"])
    assert found["program_lacks"] == lack
    told = check_program(of, lack)
    assert (told.outcome, bool(told.advice)) == ((FAILED, True) if lack else (OK, False))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("./pkg", "./pkg is a folder: name the program in it, such as -- ./pkg/train.py"),
        ("pkg", "pkg is a folder: name the program in it, such as -- pkg/train.py"),
        *(
            (line, f"there is no program '{line}': leave out the quotes: -- {line}")
            for line in ("train.py --lr 0.1", "python train.py", "train.py --out x.py")
        ),
    ],
)
def test_a_folder_and_a_line_in_quotes_are_no_programs(word: str, said: str, folder: Path) -> None:
    of = replace(plan("", folder), work=Script((word,)))
    lack = programs.check_script(needs.needs_of_host(of, 0)["program"])["program_lacks"]
    told = check_program(of, lack)
    assert f"{told.text}: {told.advice}" == said


def test_each_rank_may_have_a_program_of_its_own(folder: Path) -> None:
    for name in ("master", "slave"):
        (folder / name).mkdir()
    (folder / "master" / "a.py").write_text("")
    hosts = (
        Host("node1", "10.0.0.1", cwd=str(folder)),
        Host("node2", "10.0.0.2", cwd=str(folder), slots=2),
    )
    of = Plan("run", hosts, Script(("python", "{rank:master:slave}/a.py")))
    first_facts, other_facts = (
        programs.check_script(needs.needs_of_host(of, host_index)["program"])
        for host_index in (0, 1)
    )
    assert first_facts["program_lacks"] == ""
    lacking = {key: other_facts[key] for key in ("program_lacks", "program_lacking")}
    assert lacking == {"program_lacks": programs.FILE, "program_lacking": "slave/a.py"}
    found = check_facts(of, [hello(0), replace(hello(1), **lacking)], [0.0, 0.0])
    [text] = [check.text for check in found if check.outcome == FAILED]
    assert text == f"there is no slave/a.py in {folder}"

    # Ranks of one host may differ, too.
    here = Plan("run", (replace(hosts[0], slots=3),), of.work)
    wanted = needs.needs_of_host(here, 0)["program"]
    assert (wanted["file"], wanted["others"]) == ("master/a.py", ["slave/a.py"])
    assert programs.check_script(wanted)["program_lacking"] == "slave/a.py"


def test_a_module_on_a_path_of_its_own_is_not_looked_for(folder: Path) -> None:
    of = plan("-m no_such_package.x", folder)
    for own in (
        replace(of.hosts[0], env=(("PYTHONPATH", "src"),)),
        replace(of.hosts[0], env_from=("PYTHONPATH",)),
    ):
        wanted = needs.needs_of_host(replace(of, hosts=(own,)), 0)["program"]
        assert programs.check_script(wanted)["program_lacks"] == ""


@pytest.mark.parametrize(
    ("argument", "outcome", "text"),
    [
        ("--master-port {port}", FAILED, "--master-port {port}: port {port} is in use"),
        ("", WARNING, "the source of the script names it: port {port} is in use"),
    ],
)
def test_a_port_that_the_script_fixes_is_free_on_the_first_host(
    argument: str, outcome: str, text: str, folder: Path
) -> None:
    hosts = (*plan("", folder).hosts, Host("node2", "10.0.0.2", cwd=str(folder)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.getsockname()[1]
        fixed_port = FixedPort(number, argument.format(port=number))
        of = Plan("run", hosts, Script(("train.py",)), fixed_place=FixedPlace((fixed_port,)))
        facts = programs.check_script(needs.needs_of_host(of, 0)["program"])
    assert "ports" not in needs.needs_of_host(of, 1)["program"]
    reserved = [Reserved("10.0.0.1", 29_500), None]
    first_hello = replace(hello(0), ports_taken=facts["ports_taken"])
    [check, *_] = check_connections(of, [first_hello, hello(1)], reserved, [(), ()])
    assert (check.check, check.outcome) == ("port", outcome)
    assert check.text.startswith(text.format(port=number))
    free = programs.check_script(needs.needs_of_host(of, 0)["program"])
    assert free["ports_taken"] == ()
    [check, *_] = check_connections(of, [hello(0), hello(1)], reserved, [(), ()])
    assert (check.outcome, check.text) == (OK, f"{number} is free")


def test_an_address_that_the_script_fixes_is_one_of_the_first_host(folder: Path) -> None:
    hosts = (*plan("", folder).hosts, Host("node2", "10.0.0.2", cwd=str(folder)))
    reserved = [Reserved("10.0.0.1", 29_500), None]
    outcomes = {}
    for address in ("10.0.0.1", "127.0.0.1", "10.0.0.2"):
        place = FixedPlace(addresses=(address,))
        of = Plan("run", hosts, Script(("train.py",)), fixed_place=place)
        [check, *others] = check_connections(of, [hello(1), hello(2)], reserved, [(), ()])
        outcomes[address] = check.outcome
        assert not any(address in other.text for other in others)
    assert outcomes == {"10.0.0.1": OK, "127.0.0.1": OK, "10.0.0.2": WARNING}
    assert check.text == "the source of the script names 10.0.0.2, which it does not have"
    assert "{master_addr}" in check.advice


def test_a_folder_that_is_not_there(folder: Path) -> None:
    of = plan("train.py", folder / "nowhere")
    assert (
        programs.check_script(needs.needs_of_host(of, 0)["program"])["program_lacks"]
        == programs.FOLDER
    )
    told = check_program(of, programs.FOLDER)
    assert told.text == f"there is no folder {folder}/nowhere"
    assert "--upload ." in told.advice


def test_what_is_uploaded_is_looked_for_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    launcher = Launcher(LocalTransport(), folder / "runs")
    there = Cluster("lab", (Host("node1", "10.0.0.1"),), sync=(str(folder / "pkg"),))
    with pytest.raises(PlanError, match=r"--upload does not send train\.py"):
        launcher.plan(there, Script(("train.py",)))
    with pytest.raises(PlanError, match=r"there is no trian\.py in"):
        launcher.plan(there, Script(("trian.py",)))
    for words in ("-m pkg.train", "python3.11 train.py", "/opt/train.py"):
        assert launcher.plan(there, Script(tuple(words.split()))).uploads
    for word, said in (
        ("./pkg", r"\./pkg is a folder"),
        ("train.py --lr 1", r"leave out the quotes: -- train\.py --lr 1"),
    ):
        with pytest.raises(PlanError, match=said):
            launcher.plan(there, Script((word,)))
    whole = replace(there, sync=(str(folder),))
    with pytest.raises(PlanError, match=r"there is no node1\.py in"):
        launcher.plan(whole, Script(("{host}.py",)))
    made = launcher.plan(whole, Script(("train.py",)))
    assert made.uploads[0].target == ""
    assert needs.needs_of_host(made, 0)["program"]["cwd"] == ""


def test_only_frameworks_that_a_program_names_are_told_of(folder: Path) -> None:
    file = folder / "train.py"
    facts = replace(hello(0), packages=("accelerate", "lightning", "rich"), gpus=())

    def said(text: str) -> list[str]:
        file.write_text(text)
        seen = programs.check_script({"cwd": str(folder), "file": "train.py"})
        told = frameworks.remarks(
            plan("train.py", folder), [replace(facts, unnamed=seen["unnamed"])]
        )
        return [one.split("=")[0] for one in told]

    assert said("import torch") == []
    assert said("import transformers") == ["ACCELERATE_USE_CPU"]
    assert said("import pytorch_transformers  # pytorch-transformers") == []
    assert said("from pytorch_lightning import Trainer") == ["TTY_COMPATIBLE"]
    assert "COLUMNS" not in frameworks.defaults(replace(facts, unnamed=("lightning",)))
    look = partial(programs.check_script, {"cwd": str(folder), "module": "mod.train"})
    assert look()["unnamed"] == ()
    assert frameworks.remarks(plan("train.py", folder), [facts]) == []
    (folder / "mod").mkdir()
    (folder / "mod" / "train.py").write_text("import accelerate")
    assert "lightning" in look()["unnamed"]
    assert "accelerate" not in look()["unnamed"]


def test_frameworks_get_what_they_miss() -> None:
    """Where they are installed; a value of the user's own wins, and nothing is said of it."""
    of = plan("train.py", "/")
    facts = replace(hello(0), packages=("accelerate", "lightning", "rich"), gpus=())
    assert frameworks.defaults(facts)["ACCELERATE_USE_CPU"] == "true"
    assert frameworks.defaults(facts)["TTY_COMPATIBLE"] == 1
    assert frameworks.remarks(of, [replace(facts, unnamed=("another",))]) == [
        "ACCELERATE_USE_CPU=true on node1: otherwise, without a GPU, each rank of Accelerate would "
        "train alone",
        "TTY_COMPATIBLE=1 COLUMNS=240 on node1: otherwise, the progress bar of Lightning would "
        "print nothing",
    ]
    with_gpu = replace(facts, packages=("accelerate",), accelerator=True)
    assert "ACCELERATE_USE_CPU" not in frameworks.defaults(with_gpu)
    assert frameworks.remarks(of, [with_gpu]) == []
    own = replace(of.hosts[0], env=(("ACCELERATE_USE_CPU", "no"), ("COLUMNS", "80")))
    assert frameworks.remarks(replace(of, hosts=(own,)), [facts]) == []


TRACE = "Traceback (most recent call last):\nValueError: bad batch"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": TRACE}}}, TRACE),
        ({"message": {"message": "ValueError: x"}}, "ValueError: x"),
        ({"message": "it went wrong"}, "it went wrong"),
        ({"message": 7}, ""),
        ({"message": {"extraInfo": [], "message": None}}, ""),
        ([1], ""),
    ],
)
def test_the_error_file_is_read(data: object, text: str, tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text(json.dumps(data))
    assert read_error_file(str(tmp_path / "e.json")) == text


def test_an_error_file_that_is_none(tmp_path: Path) -> None:
    """Nothing in it ends or holds up the agent."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "bytes").write_bytes(b"\xff\x00{")
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "long").write_text(json.dumps({"message": "x" * (ERROR_BYTES + 10)}))
    for name in ("fifo", "bytes", "deep", "long", "missing", ".", "a\0b"):
        assert read_error_file(f"{tmp_path}/{name}") == ""
