"""Why a run failed: picks, among all that died, what failed by itself,
not as a consequence.

The order of deaths proves nothing: a rank that raises, then waits for the others on its way out,
dies after its victims. So evidence comes first, and time only among equals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from remote.format import listed, ranks_text
from remote.run.agent_end import describe
from remote.run.lack import Lack
from remote.run.last_words import HEADER, LINKS, PREFIX, RAISED
from training.wire.enums import EndReason
from training.wire.events import AgentEnded, Exited

TAIL = 20
"""Lines of a rank's last words that a cause keeps."""


class Evidence(IntEnum):
    """How much a death says about its cause, the strongest first."""

    KILLED = 0
    """A signal, the kernel's OOM killer, a lost host or a killed agent; we did not do it."""
    OWN = 1
    """An exception or an exit code that speaks of something else than communication."""
    WORDS = 2
    """An exception of its own in the last words of a rank that we stopped."""
    UNHEARD = 3
    """Nothing is known of a host."""
    ORDER = 4
    """Communication with the others broke: a victim, unless nothing else is known."""
    NONE = 5
    """It ended well, or we stopped it."""


@dataclass(frozen=True, slots=True)
class Death:
    """An end, of a rank or (`rank` -1) of a host, that may be the cause of the others. `time` is by
    the session's clock.

    `during` is what a rank that had made no step was at; `advice` what to do about it, where that
    can be said. `refused`: nothing had begun, and what was given cannot be used. `of_agent`: a rank
    said nothing, and the words are those of its agent. `lack` is what a user's own program says
    that it was not given.
    """

    host: str
    rank: int
    time: float
    evidence: Evidence
    what: str
    step: int = 0
    tail: tuple[str, ...] = ()
    refused: bool = False
    during: str = ""
    advice: str = ""
    of_agent: bool = False
    lack: Lack | None = None


@dataclass(frozen=True)
class Cause:
    """Why a run failed: what died first by evidence, where, and its last words. `rank` is -1 where
    it was no rank.

    `victims` failed as a consequence. `host` is empty where it was the session that refused.
    `during`, `advice`, `of_agent` and `lack` are as a `Death`'s.
    """

    host: str
    rank: int
    what: str
    step: int = 0
    tail: tuple[str, ...] = ()
    victims: tuple[int, ...] = ()
    during: str = ""
    advice: str = ""
    of_agent: bool = False
    lack: Lack | None = None

    def text(self) -> str:
        """All of it but the last words, in a line, such as "node2, rank 1: killed by SIGKILL at
        step 12; rank 0 failed as a consequence"."""
        where = f"{self.host}, rank {self.rank}" if self.rank >= 0 else self.host
        if self.what.startswith(
            (f"{where}:", f"{where}, ", f"{where} and ")
        ):  # a reason may name its hosts itself
            where = ""
        when = f" at step {self.step}" if self.step else f" while {self.during}" * bool(self.during)
        died = f"; {ranks_text(self.victims)} failed as a consequence" if self.victims else ""
        return f"{where}{': ' if where else ''}{self.what}{when}{died}"


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
            _errors(tail)
        )  # so ends a watchdog of NCCL
        return (Evidence.ORDER if broken else Evidence.KILLED), f"killed by {exited.signal}"
    if exited.code == 0:
        return (
            (Evidence.NONE, "") if complete else (Evidence.OWN, "exit code 0 before its last step")
        )
    if thrown:
        return (Evidence.ORDER if thrown.broken else Evidence.OWN), thrown.text
    evidence = Evidence.ORDER if speaks_of_communication(_errors(tail)) else Evidence.OWN
    return evidence, next(
        (
            f"{found[1]} (exit code {exited.code})"
            for found in map(_SAID.match, reversed(tail))
            if found
        ),
        f"exit code {exited.code}",
    )


def advice(exited: Exited, tail: Sequence[str], host: str) -> str:
    """What a user can do about an end of which these were the last lines; "" where they do not
    tell."""
    if exited.out_of_memory:
        return (
            f"{host} has too little memory for its ranks: give them a smaller --batch-size, or "
            "the host fewer slots"
        )
    if exited.code != 0 and _NO_SPACE.search(_errors(tail)):
        return (
            f"a disk of {host} is full: make room there, or set its workdir in hosts.toml to a "
            "folder on a larger one"
        )
    return ""


def ended(end: AgentEnded, host: str, folder: str) -> tuple[str, str]:
    """What an agent that could not go on has died of, and what to do about it. `folder`: the run's
    on that host."""
    if end.reason is EndReason.AGENT_DIED and end.detail == "SIGKILL":
        return describe(end), (
            f"something on {host} killed it: the kernel, where memory ran out (see dmesg there), a "
            "person, or a program that kills its parent"
        )
    if end.reason is not EndReason.DISK_FULL or not folder:
        return describe(end), ""
    return (
        describe(replace(end, detail=f"no room for the run's journal in {folder}")),
        f"make room there (df -h {folder}), or set workdir of {host} in hosts.toml to a folder on "
        "a larger disk",
    )


# Last words ---------------------------------------------------------------------------------------

_COMMUNICATION = re.compile(
    r"closed by (?:remote )?peer|reset by peer|connection (?:was "
    r")?(?:closed|reset|refused|aborted|timed out)|timed? ?out"
    r"|broken pipe|\bNCCL\b|ncclSystemError|ncclRemoteError|ncclInternalError"
    r"|Dist(?:Network|Store|Backend)Error"
    r"|gloo[/\\]transport|\bgloo::|Gloo connectFullMesh "
    r"failed|ProcessGroup(?:Gloo|NCCL)|socketPo?ll|TCPStore"
    r"|BrokenPipeError|Connection(?:Reset|Refused|Aborted)Error|no route to host|network is "
    r"unreachable",
    re.IGNORECASE,
)
_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$")
_SAID = re.compile(r"^(?:[\w./ -]+: error: )?((?<=: error: ).+|cannot start .+)$")
"""What argparse, our own ranks and our agent say."""
_NO_SPACE = re.compile(r"No space left on device|\bENOSPC\b|Disk quota exceeded", re.IGNORECASE)
_WARNING = re.compile(r"^\[[IW]\d{4} ")
_MESSAGE_LINES = 4
"""Lines of an exception's message that are read; torch adds stacks of C++ below."""
_PROGRAMS = re.compile(
    r"(?:Arithmetic|Assertion|Attribute|FileNotFound|Import|Index|Key|Memory|ModuleNotFound|Name|NotImplemented|Permission"
    r"|Syntax|Type|Value|ZeroDivision)Error"
)
"""Exceptions that communication does not raise, whatever their messages speak of (`timeout` is a
popular argument)."""
_WIDTH = 300
"""Characters of a message that a cause quotes."""


@dataclass(frozen=True, slots=True)
class Thrown:
    """The exception that ended a program. `broken`: it came of broken communication. `text` is what
    to show."""

    type: str
    text: str
    broken: bool


def _errors(tail: Sequence[str]) -> str:
    """The lines but for torch's warnings, which speak of process groups and time outs also where
    all is well."""
    lines = (PREFIX.sub("", line) for line in tail)
    return "\n".join(line for line in lines if not _WARNING.match(line))


def speaks_of_communication(text: str) -> bool:
    """Whether the text is that of an error between ranks, which a rank dies of when another is
    gone."""
    return _COMMUNICATION.search(text) is not None


def exception(tail: Sequence[str]) -> Thrown | None:
    """The exception of the last traceback in these lines, or None.

    Of a chain the first link decides whether communication broke: what follows it is what the
    program made of it.
    """
    lines = [PREFIX.sub("", line) for line in tail]
    chain = _chain(lines)
    if not chain:
        return None
    root = chain[0]
    last = chain[-1]
    broken = _is_broken(root)
    alone = len(chain) == 1 or (_is_broken(last) and not broken)
    return Thrown(
        _type(last), _short(root) if alone else f"{_short(last)} (after {_short(root)})", broken
    )


def _type(thrown: str) -> str:
    return thrown.split("\n", 1)[0].split(":", 1)[0]


def _is_broken(thrown: str) -> bool:
    return not _PROGRAMS.fullmatch(_type(thrown)) and speaks_of_communication(thrown)


def _chain(lines: Sequence[str]) -> list[str]:
    """The exceptions (type, message and some lines of it) of the last chain of tracebacks, in
    order."""
    chain: list[str] = []
    linked = False
    raised: int | None = None
    inside = False
    for number, line in enumerate(lines):
        if line.strip() in LINKS:
            linked = True
        elif line.strip() == HEADER:
            chain = chain if linked else []
            linked = False
            inside = True
        elif inside and RAISED.match(line):
            chain.append(_message(lines, number))
            inside = False
        elif not inside and raised is None and _ERROR.match(line):
            raised = number
    if (
        not chain and raised is not None
    ):  # a syntax error, or a traceback whose head is out of sight
        return [_message(lines, raised)]
    return chain


def _message(lines: Sequence[str], start: int) -> str:
    end = start + 1
    while end < min(len(lines), start + _MESSAGE_LINES) and not _ends_message(lines[end]):
        end += 1
    return "\n".join(lines[start:end])


def _ends_message(line: str) -> bool:
    return not line.strip() or line.strip() in (HEADER, *LINKS) or _WARNING.match(line) is not None


def _short(text: str) -> str:
    line = text.split("\n", 1)[0].strip()
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
