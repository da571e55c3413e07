"""Why a run failed: picks, among all that died, what failed by itself,
not as a consequence.

The order of deaths proves nothing: a rank that raises, then waits for the others on its way out,
dies after its victims. So evidence comes first, and time only among equals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from remote.cluster.hosts import Host
from remote.format import listed
from remote.run.diagnosis.agent_end import describe
from remote.run.output.tracebacks import errors_of, exception, speaks_of_communication
from remote.run.state.types import Death, Evidence
from training.wire.enums import EndReason
from training.wire.events import AgentEnded, Exited

_SAID = re.compile(r"^(?:[\w./ -]+: error: )?((?<=: error: ).+|cannot start .+)$")
"""What argparse, our own ranks and our agent say."""
_NO_SPACE = re.compile(r"No space left on device|\bENOSPC\b|Disk quota exceeded", re.IGNORECASE)
TAIL = 20
"""Lines of a rank's last words that a cause keeps."""


def joined(death: Death, deaths: Iterable[Death]) -> Death:
    """The death of a host that was not reached, as that of all of the `deaths` with the same
    reason."""
    same = [one for one in deaths if one.rank < 0 and _reason(one) == _reason(death)]
    if death not in same or len(same) == 1:
        return death
    names = [one.host for one in same]
    return replace(death, host=names[0], what=f"{listed(names, len(names))}: {_reason(death)}")


def _reason(death: Death) -> str:
    """Why, without the host's name."""
    why = death.what.removeprefix(f"{death.host}: ")
    return re.sub(
        rf"^(rankboard trust\b.*) {re.escape(death.host)}$", r"\1 --all", why, flags=re.MULTILINE
    )


def first(deaths: Iterable[Death]) -> Death | None:
    """The death with the strongest evidence, the earliest among equals; None where there is none
    that says anything."""
    found = [death for death in deaths if death.evidence < Evidence.NONE]
    return min(found, key=lambda death: (death.evidence, death.time, death.rank), default=None)


def judge(exited: Exited, tail: Sequence[str], *, complete: bool) -> tuple[Evidence, str]:
    """What an exit and the last lines of stderr say, and the same in words. `complete`: the rank
    had done all its work."""
    thrown = exception(tail)
    strange = (
        thrown is not None
        and not thrown.broken
        and not thrown.type.endswith(("KeyboardInterrupt", "SystemExit"))
    )
    if exited.out_of_memory:
        return (
            Evidence.KILLED,
            f"killed by the kernel: out of memory ({exited.signal or 'SIGKILL'})",
        )
    if exited.stopped:
        return (Evidence.WORDS, thrown.text) if thrown and strange else (Evidence.NONE, "stopped")
    if exited.signal:
        broken = exited.signal == "SIGABRT" and speaks_of_communication(
            errors_of(tail)
        )  # so ends a watchdog of NCCL
        return (Evidence.ORDER if broken else Evidence.KILLED), f"killed by {exited.signal}"
    if exited.code == 0:
        return (
            (Evidence.NONE, "") if complete else (Evidence.OWN, "exit code 0 before its last step")
        )
    if thrown:
        return (Evidence.ORDER if thrown.broken else Evidence.OWN), thrown.text
    evidence = Evidence.ORDER if speaks_of_communication(errors_of(tail)) else Evidence.OWN
    return evidence, next(
        (
            f"{found[1]} (exit code {exited.code})"
            for found in map(_SAID.match, reversed(tail))
            if found
        ),
        f"exit code {exited.code}",
    )


def advice(exited: Exited, tail: Sequence[str], host: Host) -> str:
    """What a user can do about an end of which these were the last lines; "" where they do not
    tell."""
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
    return ""


def ended(end: AgentEnded, host: Host, folder: str) -> tuple[str, str]:
    """What an agent that could not go on has died of, and what to do about it. `folder`: the run's
    on that host."""
    if end.reason is EndReason.AGENT_DIED and end.detail == "SIGKILL":
        return describe(end), (
            f"something on {host.name} killed it: the kernel, where memory ran out (see dmesg "
            "there), a person, or a program that kills its parent"
        )
    if end.reason is not EndReason.DISK_FULL or not folder:
        return describe(end), ""
    return (
        describe(replace(end, detail=f"no room for the run's journal in {folder}")),
        f"make room there (df -h {folder}), or set workdir of {host.name} in "
        f"{host.hosts_file} to a folder on a larger disk",
    )
