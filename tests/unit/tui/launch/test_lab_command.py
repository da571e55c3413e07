"""The command of a run in a lab has the limits of its links and cores, and may leave a host out."""

from __future__ import annotations

from dataclasses import replace

from remote.lab.spec import parse
from remote.plan.plan import Script
from tests.kit.histories import History, plan
from training.wire.host_events import Hello, HostSample
from tui.launch.command_line import find_lab_options, format_run_command

GIB = 1 << 30


def in_lab(cores: tuple[float, ...], mbits: int = 1000) -> History:
    """A run in a lab on a machine of 8 cores, once its hosts have said what they are."""
    spec = parse(len(cores), f"{mbits}mbit", ",".join(map(str, cores)))
    history = History(replace(plan(len(cores)), hosts=spec.hosts()))
    for host, own_cores in enumerate(cores):
        hello = Hello("box", "me", 1, "3.11", "python3", "Linux 6", "b", own_cores, GIB)
        speeds = (("eth0", mbits),)
        history.say(host, replace(hello, link_speeds=speeds), HostSample((1.0,) * 8, 1, GIB))
    return history


def command_of(history: History, without: str = "") -> str:
    run = history.state()
    return format_run_command(run.plan, find_lab_options(run), without)


def test_limits_that_differ_are_listed_and_others_are_written_once() -> None:
    line = command_of(in_lab((0.4, 0.1, 0.4)), without="node2")
    assert "--local 3 --link 1gbit --cpus 0.4,0.1,0.4 --exclude node2" in line
    line = command_of(in_lab((0.5, 0.5), mbits=250))
    assert "--local 2 --link 250mbit --cpus 0.5" in line
    assert "--exclude" not in line


def test_hosts_without_limits_have_none_in_the_command() -> None:
    assert "--cpus" not in command_of(in_lab((8.0, 8.0)))
    elsewhere = History(plan(2)).training(3)
    assert "--link" not in command_of(elsewhere)


def test_variables_before_a_script_stay_before_it() -> None:
    variables = (("LR", "0.5"), ("NAME", "a b"))
    of = replace(plan(2), work=Script(("train.py",), variables=variables))
    assert command_of(History(of)).endswith(" -- LR=0.5 'NAME=a b' train.py")


def test_hosts_of_a_file_that_are_this_machine_are_not_written_as_ranks_of_it() -> None:
    assert "--local" not in command_of(History(plan(2, transport="local")).training(3))
    local_hosts = tuple(
        replace(host, name=f"local{number}")
        for number, host in enumerate(plan(2, transport="local").hosts, 1)
    )
    of_flag = History(replace(plan(2), hosts=local_hosts)).training(3)
    assert "--local 2 --slots 1" in command_of(of_flag)
