"""What a check has found, in words. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from remote.doctor.host_facts import NAMED
from remote.events import CheckFinished
from remote.format import count, listed
from training.wire.host_events import Hello

LOAD = "load"
"""The name of the check of what else keeps a host busy."""


def name_busiest(hello: Hello) -> str:
    """Name the busiest processes: "python 1.9 cores, cc1plus 0.8"."""
    (first_name, first_cores), *others = hello.busiest
    first_text = f"{first_name} {count(first_cores, 'core')}"
    return ", ".join([first_text, *(f"{name} {cores:g}" for name, cores in others)])


def is_told(checked: CheckFinished) -> bool:
    """Return True if this is the one of several equal findings that tells of all of them."""
    return not checked.same or checked.host == checked.same[0]


def refusal(host_names: Sequence[str], checked: CheckFinished) -> str:
    """Return a failed check as the reason why a run is not started. `host_names` are all hosts'."""
    problem_text = whose(host_names, checked) + checked.text
    return f"{problem_text}; {checked.advice}" if checked.advice else problem_text


def warning(host_names: Sequence[str], checked: CheckFinished, command: str) -> str:
    """Return a check that warns as a short line for the log of a run, which goes on all the same.
    `host_names` are all hosts'; `command` tells the rest."""
    return f"{whose(host_names, checked, NAMED)}{checked.check}: {checked.text} (see {command})"


def whose(host_names: Sequence[str], checked: CheckFinished, most_names: int = sys.maxsize) -> str:
    """Return how a line on a check begins: with its hosts, `most_names` of them. `host_names` are
    all hosts'."""
    host_indices = checked.same or (checked.host,)
    named_hosts = [
        host_names[host_index] for host_index in host_indices if 0 <= host_index < len(host_names)
    ]
    if len(named_hosts) == len(host_names) > most_names:
        return f"all {len(host_names)} hosts: "
    return f"{listed(named_hosts, most_names)}: " if named_hosts else ""
