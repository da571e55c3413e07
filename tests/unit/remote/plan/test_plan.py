"""The plan: which rank goes where, its environment, where the ranks meet, and what is said of plans
that cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from remote.cluster.hosts import Host
from remote.plan import frameworks, serialize
from remote.plan.dry_run import dry_run, notes
from remote.plan.place import master_address, place
from remote.plan.placeholders import LOCAL_RANK
from remote.plan.plan import Plan, PlanError, Policy, Script, Upload, check, new_run
from training.job import Job
from training.place import Place
from training.wire.host_events import Hello

LO, ETH = ("lo", "127.0.0.1", 8), ("eth1", "10.0.0.1", 24)


def hello(
    machine: str, cores: float = 8.0, address: str = "10.0.0.1", interface: str = "eth1"
) -> Hello:
    facts = Hello(
        "h", "u", 1, "3.11", "/usr/bin/python3", "Linux", machine, cores, 1, interfaces=(LO, ETH)
    )
    return replace(facts, route_address=address, route_interface=interface)


def plan(*hosts: Host, **job: Any) -> Plan:
    return Plan("a-run", hosts, Job(**job))


def host(number: int, slots: int = 1, threads: int = 0, interface: str = "") -> Host:
    return Host(
        f"node{number}", f"10.0.0.{number}", slots=slots, threads=threads, interface=interface
    )


def environments(of: Plan, *facts: Hello) -> list[dict[str, str]]:
    return [dict(one.env) for placed in place(of, facts, "10.0.0.1", 29_500) for one in placed]


def test_ranks_follow_hosts_and_slots() -> None:
    found = environments(plan(host(1), host(2, slots=2)), hello("a"), hello("b"))
    names = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
    )
    assert [tuple(env[name] for name in names) for env in found] == [
        ("0", "0", "3", "1", "0", "2"),
        ("1", "0", "3", "2", "1", "2"),
        ("2", "1", "3", "2", "1", "2"),
    ]
    assert {(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in found} == {("10.0.0.1", "29500")}


def test_hosts_that_are_one_machine_share_its_cores() -> None:
    of = plan(host(1), host(2, slots=3), host(3), host(4, threads=5))
    found = environments(of, hello("a"), hello("a"), hello("b", cores=2.5), hello("b", cores=2.5))
    assert [env["OMP_NUM_THREADS"] for env in found] == ["2", "2", "2", "2", "1", "5"]


def test_ranks_work_where_uploads_land() -> None:
    of = plan(host(1))
    assert of.cwd(0) == "~/.rankboard"
    of = replace(of, uploads=(Upload("/here/src", "src"), Upload("/here", "")), project="p-1")
    assert of.cwd(0) == "~/.rankboard/files/p-1"
    assert "  upload /here/src to ~/.rankboard/files/p-1/src\n" in dry_run(of)
    assert serialize.parse(serialize.dump(of)) == of


@pytest.mark.parametrize(
    ("policy", "copies"),
    [
        (Policy(max_restarts=1, min_nodes=1), True),
        (Policy(max_restarts=1), False),
        (Policy(max_restarts=1, min_nodes=2), False),
        (Policy(min_nodes=1), False),
    ],
)
def test_each_host_keeps_copies_where_the_run_may_go_on_without_one(
    policy: Policy, copies: bool
) -> None:
    of = replace(plan(host(1), host(2)), policy=policy)
    assert [Place.read(env).copies for env in environments(of, hello("a"), hello("b"))] == [
        copies
    ] * 2


def test_more_ranks_than_cores_have_a_thread_each() -> None:
    assert environments(plan(host(1, slots=3)), hello("a", cores=1.5))[0]["OMP_NUM_THREADS"] == "1"


def test_the_interface_is_the_hosts_own_or_the_one_that_leads_to_the_first() -> None:
    found = environments(
        plan(host(1, interface="ib0"), host(2)), hello("a"), hello("b", interface="eth7")
    )
    assert [env["GLOO_SOCKET_IFNAME"] for env in found] == ["ib0", "eth7"]
    unknown = environments(plan(host(1)), hello("a", interface=""))
    assert "GLOO_SOCKET_IFNAME" not in unknown[0]


def test_the_ranks_meet_at_the_interface_or_the_route() -> None:
    assert master_address(plan(host(1)), [hello("a", address="10.9.9.9")]) == "10.9.9.9"
    assert (
        master_address(plan(host(1, interface="eth1")), [hello("a", address="10.9.9.9")])
        == "10.0.0.1"
    )


def test_an_interface_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(
        PlanError,
        match=r"node1: no interface 'eth9' there.* one of: lo \(127.0.0.1\), eth1 \(10.0.0.1\)",
    ):
        master_address(plan(host(1, interface="eth9")), [hello("a")])


def test_loopback_is_no_meeting_place_for_several_machines() -> None:
    local = hello("a", address="127.0.1.1")
    assert master_address(plan(host(1), host(2)), [local, hello("a")]) == "127.0.1.1"
    with pytest.raises(
        PlanError,
        match=r"node1: the other hosts cannot reach it at 127.0.1.1; .* one of: eth1 \(10.0.0.1\)",
    ):
        master_address(plan(host(1), host(2)), [local, hello("b")])


def test_a_plan_without_hosts_or_with_too_small_a_batch_is_none() -> None:
    with pytest.raises(PlanError, match="no host is left"):
        check(plan())
    with pytest.raises(PlanError, match="--batch-size 2 is smaller than the 3 ranks"):
        check(plan(host(1), host(2, slots=2), batch_size=2))


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (9, []),
        (10, ["batch size 10 does not divide by 3 ranks: some take 4 samples, the others 3"]),
    ],
)
def test_an_uneven_split_is_said(batch: int, said: list[str]) -> None:
    assert notes(plan(host(1, slots=3), batch_size=batch)) == said


def test_ranks_that_exchange_nothing_are_told_apart_from_one_node() -> None:
    remark = "sync none: 2 ranks train a model each, and exchange nothing"
    assert notes(plan(host(1, slots=2), sync="none")) == [remark]
    over_hosts = notes(plan(host(1), host(2), sync="none"))
    assert over_hosts == [f"{remark}; --num-hosts 1 trains on one host"]
    assert notes(plan(host(1), sync="none")) == []


def test_a_server_that_does_not_train_takes_no_part_of_a_split() -> None:
    job = {"sync": "parameter_server", "sync_option": ("server=1", "dedicated=yes")}
    assert notes(plan(host(1, slots=4), batch_size=63, **job)) == []
    assert notes(plan(host(1, slots=4), batch_size=64, **job)) == [
        "batch size 64 does not divide by 3 ranks that train: some take 22 samples, the others 21"
    ]


def test_a_dry_run_shows_what_only_the_hosts_know_as_such() -> None:
    text = dry_run(plan(host(1), host(2, interface="ib0")))
    assert "MASTER_ADDR=10.0.0.1 MASTER_PORT='<chosen on node1>'" in text
    assert (
        "GLOO_SOCKET_IFNAME='<interface to node1>' NCCL_SOCKET_IFNAME='=<interface to node1>'"
        in text
    )
    assert "NCCL_SOCKET_IFNAME='=ib0'" in text
    assert text.startswith("2 ranks on 2 hosts, for example as run ")
    assert text.count("python -m training") == 1
    assert "--seed" not in text
    assert dry_run(plan(host(1))).startswith("1 rank on 1 host, ")
    assert "GLOO_SOCKET_IFNAME=ib0" in text


def test_a_runs_name_is_one_folders() -> None:
    name = new_run(Job(model="torchvision/resnet18"), datetime(2026, 11, 20, 9, 30))
    assert name.startswith("20261120-093000-ddp-torchvision-resnet18-")


# A program of the user's own ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "executed"),
    [
        ("train.py --lr 0.1", "PY -u train.py --lr 0.1"),
        ("-m pkg.train -v", "PY -u -m pkg.train -v"),
        ("python train.py", "PY -u train.py"),
        ("/opt/python train.py", "/opt/python train.py"),
        ("./a.sh train.py", "./a.sh train.py"),
        ("--no-python ./tool.py x", "./tool.py x"),
        ("train.py --local_rank={local_rank} $rank", "PY -u train.py --local_rank=3 $rank"),
    ],
)
def test_what_a_rank_of_a_program_executes(words: str, executed: str) -> None:
    assert " ".join(Script(tuple(words.split())).argv("PY", {LOCAL_RANK: 3})) == executed


def script_plan(*hosts: Host, **more: Any) -> Plan:
    return Plan("a-run", hosts, Script(("train.py",), **more), Policy(max_restarts=2))


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("python -I train.py", "-I"),
        ("/a/bin/python3.11 -uE -m pkg.train", "-E"),
        ("--no-python python -O -S train.py", "-S"),
        ("python -m pkg -I", ""),
        ("python -W ignore train.py -E", ""),
        ("python -W ignore -I train.py", "-I"),
        ("python3 -X dev -bE train.py", "-E"),
        ("python -Wignore -m pkg -I", ""),
        ("train.py -I", ""),
        ("./run -I", ""),
    ],
)
def test_it_is_said_which_python_cannot_be_watched(words: str, option: str) -> None:
    script = Script(tuple(words.split()))
    remarks = frameworks.remarks(replace(script_plan(host(1)), work=script), [None])
    assert [one.partition(":")[0] for one in remarks] == ([f"python {option}"] if option else [])
    unwatched = replace(script, watch=False)
    assert not frameworks.remarks(replace(script_plan(host(1)), work=unwatched), [None])


def test_a_program_has_the_variables_of_torchrun() -> None:
    of = script_plan(host(1), host(2, slots=2))
    facts = [replace(hello(name), folder=f"/{name}") for name in "ab"]
    placed = place(of, facts, "10.0.0.1", 29_500, attempt=1)[1][1]
    assert placed.argv == ("/usr/bin/python3", "-u", "train.py")
    env = dict(placed.env)
    elastic = {name: value for name, value in env.items() if name.startswith("TORCHELASTIC_")}
    assert elastic == {
        "TORCHELASTIC_RUN_ID": "a-run",
        "TORCHELASTIC_RESTART_COUNT": "1",
        "TORCHELASTIC_MAX_RESTARTS": "2",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        "TORCHELASTIC_ERROR_FILE": "/b/errors/1-2.json",
    }
    assert (env["ROLE_NAME"], env["ROLE_RANK"], env["ROLE_WORLD_SIZE"]) == ("default", "2", "3")
    assert env["RANKBOARD_WATCH"] == "1"
    assert dict(placed.defaults)["OMP_NUM_THREADS"] == "4"


def test_what_a_user_chooses_for_a_program_wins() -> None:
    chosen = replace(host(1, threads=3), env=(("ROLE_NAME", "trainer"), ("RANK", "7")))
    ((placed,),) = place(script_plan(chosen, watch=False), [hello("a")], "10.0.0.1", 29_500)
    env = dict(placed.env)
    assert (env["ROLE_NAME"], env["RANK"], env["OMP_NUM_THREADS"]) == ("trainer", "0", "3")
    assert "RANKBOARD_WATCH" not in env


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("checkpoint_every", 5),
        ("steps", "many"),
        ("steps", 1.5),
        ("lr", True),
        ("verify_data", "yes"),
        ("sync_option", "bucket_mb=3"),
        ("sync_option", [3]),
    ],
)
def test_a_setting_of_a_wrong_type_makes_no_plan(setting: str, value: object) -> None:
    data = json.loads(serialize.dump(Plan("run", (Host("node1", "x"),), Job())))
    assert setting in data["work"]["job"]
    data["work"]["job"][setting] = value
    with pytest.raises(ValueError, match="is not a"):
        serialize.parse(json.dumps(data))


def test_a_program_survives_the_way_through_json() -> None:
    of = script_plan(host(1), watch=False, fetch=("out/*",), follow=("*.csv",))
    assert serialize.parse(serialize.dump(of)).work == of.work
    text = serialize.dump(of)
    before = text[: text.index('"work"')] + '"work": {"script": ["a", "b c"]}}'
    assert serialize.parse(before).work == Script(("a", "b c"))
    with pytest.raises(ValueError, match="no words"):
        serialize.parse(before.replace('["a", "b c"]', "[]"))


def test_where_a_program_works() -> None:
    of = script_plan(replace(host(1), cwd="/project"), host(2))
    assert (of.cwd(0), of.cwd(1)) == ("/project", "~/.rankboard")
    assert replace(of, project="p-1").cwd(0) == "~/.rankboard/files/p-1"
    assert replace(of, work=Job()).cwd(0) == "~/.rankboard"


def test_hosts_are_selected_again_by_their_file_or_as_ranks_of_this_machine() -> None:
    own = replace(host(0, slots=3), name="local", workdir="/home/ada/runs/a-run/node")
    assert plan(own).selection_option == " --local 3"
    assert plan(replace(own, hosts_file="other.toml")).selection_option == " --hosts other.toml"
    assert plan(host(0), host(1)).selection_option == ""
    two = [replace(own, name=f"local{number}") for number in (1, 2)]
    assert plan(*two).selection_option == " --local 6 --slots 3"
    listed = [replace(own, name=f"node{number}") for number in (1, 2)]
    assert plan(*listed).selection_option == "", "a hosts file lists this machine"


def test_what_a_script_is_called_has_no_secrets() -> None:
    variables = (("LR", "0.1"), ("NAME", "a b"), ("HF_TOKEN", "abc"))
    script = Script(("train.py", "x y"), variables=variables)
    assert script.description == "LR=0.1 NAME='a b' HF_TOKEN=(hidden) train.py 'x y'"
    assert script.command_line() == "LR=0.1 'NAME=a b' HF_TOKEN=abc train.py 'x y'"
