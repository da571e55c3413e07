"""Finds why a run failed: among all that died, what failed by itself, not as a consequence.

The order of deaths proves nothing: a rank that raises, then waits for the others on its way out,
dies after its victims. So evidence comes first, and time only among equals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from remote.cluster.hosts import Host
from remote.format import listed
from remote.plan import placeholders
from remote.run.diagnosis.agent_end import describe_end
from remote.run.output.tracebacks import errors_of, find_exception, speaks_of_communication
from remote.run.state.host_state import strip_host_name, trust_all_hosts
from remote.run.state.types import Cause, Evidence
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded, Exited

TAIL = 20
"""Lines of a rank's last words that a cause keeps."""
_OWN_ERROR = re.compile(r"^(?:[\w./ -]+: error: )?((?<=: error: ).+|cannot start .+)$")
"""What argparse, our own ranks and our agent print."""
_NO_SPACE = re.compile(r"No space left on device|\bENOSPC\b|Disk quota exceeded", re.IGNORECASE)
_PORT_TAKEN = re.compile(r"\bEADDRINUSE\b|Address already in use", re.IGNORECASE)
_INTERRUPTS = ("KeyboardInterrupt", "SystemExit")


def join_deaths(death: Cause, deaths: Iterable[Cause]) -> Cause:
    """Return the death of a host that was not reached, as that of all with the same reason."""
    reason = _shared_reason(death)
    same_deaths = [
        other_death
        for other_death in deaths
        if other_death.rank < 0 and _shared_reason(other_death) == reason
    ]
    if death not in same_deaths or len(same_deaths) == 1:
        return death
    host_names = [other_death.host for other_death in same_deaths]
    problem = f"{listed(host_names, len(host_names))}: {reason}"
    return replace(death, host=host_names[0], problem=problem, names_hosts=True)


def _shared_reason(death: Cause) -> str:
    """Return the reason without the host's name, so that it may be that of other hosts, too."""
    reason = strip_host_name(death.problem, death.host)
    # Its advice may be a command for this host alone, which is as good for all of them.
    return trust_all_hosts(reason, death.host)


def find_first(deaths: Iterable[Cause]) -> Cause | None:
    """Return the death with the strongest evidence, the earliest among equals, if there is any."""
    telling_deaths = [death for death in deaths if death.evidence < Evidence.NONE]
    return min(
        telling_deaths, key=lambda death: (death.evidence, death.time, death.rank), default=None
    )


def judge_exit(exited: Exited, tail: Sequence[str], *, complete: bool) -> tuple[Evidence, str]:
    """Return what an exit and the last lines of stderr prove, and the same in words.

    `complete`: the rank had done all its work.
    """
    exception = find_exception(tail)
    # Before all else: an exception may be what the program made of memory that it did not get.
    if exited.out_of_memory:
        signal_name = exited.signal or "SIGKILL"
        return Evidence.KILLED, f"killed by the kernel: out of memory ({signal_name})"
    if exited.stopped:
        # A rank may say while it is stopped what failed. What the signal itself makes Python raise
        # tells nothing.
        if exception and not exception.broken and not exception.type.endswith(_INTERRUPTS):
            return Evidence.WORDS, exception.text
        return Evidence.NONE, "stopped"
    if exited.signal:
        # A watchdog of NCCL ends its rank by SIGABRT when another rank is gone.
        is_watchdog = exited.signal == "SIGABRT" and speaks_of_communication(errors_of(tail))
        evidence = Evidence.ORDER if is_watchdog else Evidence.KILLED
        return evidence, f"killed by {exited.signal}"
    if exited.code == 0:
        if complete:
            return Evidence.NONE, ""
        return Evidence.OWN, "exit code 0 before its last step"
    if exception:
        return Evidence.ORDER if exception.broken else Evidence.OWN, exception.text
    is_broken = speaks_of_communication(errors_of(tail))
    return Evidence.ORDER if is_broken else Evidence.OWN, _describe_code(exited.code, tail)


def _describe_code(code: int, tail: Sequence[str]) -> str:
    for line in reversed(tail):
        error_match = _OWN_ERROR.match(line)
        if error_match:
            return f"{error_match[1]} (exit code {code})"
    return f"exit code {code}"


def advise_on_exit(exited: Exited, tail: Sequence[str], host: Host) -> str:
    """Return what a user can do about an end with these last lines; "" if nothing is known."""
    if exited.out_of_memory:
        return (
            f"{host.name} has too little memory for its ranks: give them a smaller --batch-size, "
            "or the host fewer slots"
        )
    if exited.code != 0 and _NO_SPACE.search(errors_of(tail)):
        return (
            f"a disk of {host.name} is full: make room there, or set its workdir in "
            f"{host.hosts_file} to a folder on a larger one"
        )
    if exited.code != 0 and _PORT_TAKEN.search(errors_of(tail)):
        return (
            f"another process on {host.name} listens on this port: let the script take MASTER_PORT "
            f"from its environment, or write {placeholders.MASTER_PORT} for a free port; rankboard "
            "ps --orphans finds what ended runs have left"
        )
    return ""


def explain_agent_end(end: AgentEnded, host: Host, folder: str) -> tuple[str, str]:
    """Return what an agent that could not go on has died of, and what to do about it.

    `folder` is the run's on that host, "" if it is not known.
    """
    if end.reason is EndReason.AGENT_DIED and end.detail == "SIGKILL":
        advice = (
            f"something on {host.name} killed it: the kernel, where memory ran out (see dmesg "
            "there), a person, or a program that kills its parent"
        )
        return describe_end(end), advice
    if end.reason is EndReason.DISK_FULL and folder:
        problem = describe_end(replace(end, detail=f"no room for the run's journal in {folder}"))
        advice = (
            f"make room there (df -h {folder}), or set workdir of {host.name} in "
            f"{host.hosts_file} to a folder on a larger disk"
        )
        return problem, advice
    return describe_end(end), ""
