"""Finds which hosts of a run were busy with something else as it started. Pure."""

from __future__ import annotations

from remote.doctor.host_facts import NAMED, WARNING
from remote.doctor.wording import LOAD, is_told, name_busiest
from remote.format import count, listed
from remote.run.run_state import RunState
from training.wire.host_events import Hello


def describe_start_load(run: RunState) -> str:
    """Say which hosts were busy with others at the start, and with what as far as it is known:
    "node1 was busy with others at the start: python3 1.6 cores". Return "" if none was.

    It is no flaw of the run, but may explain why another one with these settings was faster.
    """
    busy_names = []
    loads = []
    for host in run.hosts:
        check = run.checks.get((host.index, LOAD))
        if check is None or check.outcome != WARNING:
            continue
        busy_names.append(host.name)
        # Of hosts with one load, such as those of one machine, a single finding tells of all.
        if host.hello and is_told(check):
            loads.append(_name_load(host.hello))
    if not busy_names:
        return ""
    verb = "was" if len(busy_names) == 1 else "were"
    sentence = f"{_name_hosts(run, busy_names)} {verb} busy with others at the start"
    load_text = ", ".join(dict.fromkeys(loads))
    return f"{sentence}: {load_text}" if load_text else sentence


def _name_hosts(run: RunState, busy_names: list[str]) -> str:
    if run.plan.is_local and len(run.hosts) == 1:
        return "this machine"
    if len(busy_names) == len(run.hosts) > NAMED:
        return f"all {len(busy_names)} hosts"
    return listed(busy_names, NAMED)


def _name_load(hello: Hello) -> str:
    """Name what keeps a host busy; its load, if no names are known."""
    if hello.runs:
        run_name, _ = hello.runs[0]
        return f"your run {run_name}"
    if hello.busiest:
        return name_busiest(hello)
    return f"load {hello.load:.1f} on {count(hello.cores, 'core')}"
