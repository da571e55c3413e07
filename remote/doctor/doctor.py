"""The checks before a run: what the hosts' facts, and the connections that they tried, mean for
this plan. Pure.

Two rounds. After all hosts have said Hello, or could not be reached: `check_facts`. Then every host
listens (`reservations`) and connects to the master and to its next neighbour (`connects`), and
`check_connections` says what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from remote.cluster.hosts import Host
from remote.doctor import job, machine, network, software
from remote.doctor.check import FAILED, OK, WARNING, Facts, Found, listed
from remote.plan.place import master_address
from remote.plan.plan import Plan, PlanError
from remote.transport.registry import kind
from training.wire.commands import Connect, Reserve
from training.wire.events import Checked, Connected, Hello, Reserved

__all__ = [
    "CHECKS",
    "FAILED",
    "OK",
    "UNFIT",
    "WARNING",
    "check_connections",
    "check_facts",
    "connects",
    "grouped",
    "is_told",
    "lost",
    "refusal",
    "reservations",
    "unfit",
    "whose",
]

SECONDS = 3.0
"""How long a host has to connect to the others."""
OF_FACTS: dict[str, Callable[[Facts, int], Found]] = {
    "address": machine.address,
    "login": lambda facts, index: Found(OK, facts.hello(index).user),
    "python": software.python,
    "torch": software.torch,
    "torchvision": software.torchvision,
    "code": software.code,
    "disk": machine.disk,
    "memory": machine.memory,
    "clock": machine.clock,
    "cores": machine.cores,
    "load": machine.load,
    "gpus": machine.gpus,
    "interface": network.interface,
    "data": job.data,
    "job": job.job,
    "precision": job.precision,
}
"""The checks of the first round, in the order in which they are shown."""
OF_SOME_JOBS = ("torchvision", "data", "job", "precision")
"""Those that not every plan has a use for."""
CHECKS = (*OF_FACTS, "port", "connect")
"""All checks, in the order in which they are shown."""

UNFIT = ("python", "code", "disk")
"""The checks that a host fails which was logged in to, but cannot be used."""
_UNKNOWN_KEY = "its host key is unknown"
_ABOUT = (
    ("address", r"does not resolve"),
    (
        "python",
        r"^no .+ there|^.+ is no working Python 3|its python \(|^cannot start|its agent "
        r"ended|older than",
    ),
    ("code", r"^its code "),
    ("disk", r"^cannot use its workdir"),
)
"""Which check it is that a host failed which was not reached, by what the way there said; else the
login."""


def check_facts(
    plan: Plan,
    facts: Sequence[Hello | None],
    offsets: Sequence[float],
    problems: Sequence[str] = (),
) -> list[Checked]:
    """The first round, host by host, in order.

    `facts` are None for a host that was not reached, and then `problems` has why; `offsets` are how
    many seconds each host's clock is ahead of ours (any figure for those not reached). Without
    `problems`, all were reached.
    """
    known = Facts(plan, facts, offsets)
    needed = {*job.checks(plan), *(("torchvision",) if software.torchvision_needed(plan) else ())}
    names = [name for name in OF_FACTS if name not in OF_SOME_JOBS or name in needed]
    found: list[Checked] = []
    for index, hello in enumerate(facts):
        if hello:
            found += [_checked(index, name, OF_FACTS[name](known, index)) for name in names]
        else:
            found += _not_reached(plan, index, problems[index])
    return _trusting(found)


def _checked(on: int, check: str, found: Found) -> Checked:
    return Checked(on, check, found.outcome, found.text, found.advice)


def _not_reached(plan: Plan, index: int, problem: str) -> list[Checked]:
    """What is known of a host that has not said Hello: how far the way there went."""
    host = plan.hosts[index]
    text = problem.removeprefix(f"{host.name}: ") or "it could not be reached"
    failed = _failed(text)
    passed = [] if failed == "address" else [Checked(index, "address", OK, host.address)]
    passed += [] if failed in ("address", "login") else [Checked(index, "login", OK, "ok")]
    return [*passed, _checked(index, failed, _told(plan, index, text))]


def _trusting(found: list[Checked]) -> list[Checked]:
    """The checks; where several hosts have unknown keys, one command for all of them."""
    unknown = [
        one
        for one in found
        if one.advice.startswith("rankboard trust ") and one.text.startswith(_UNKNOWN_KEY)
    ]
    if len(unknown) < 2:
        return found
    return [
        replace(one, advice="rankboard trust --all") if one in unknown else one for one in found
    ]


def _failed(text: str) -> str:
    """The check that a host failed of which the way there said this."""
    return next((check for check, about in _ABOUT if re.search(about, text)), "login")


def _told(plan: Plan, index: int, text: str) -> Found:
    """The way's own words: what it found, then what to do about it, in a new line or behind the
    last semicolon."""
    what, _, advice = text.partition("\n") if "\n" in text else text.rpartition("; ")
    host = plan.hosts[index]
    return Found(
        FAILED,
        what or text,
        " ".join(advice.split()) if what else _by_hand(host),
    )


def _by_hand(host: Host) -> str:
    command = kind(host.transport).by_hand(host)
    return f"try it by hand: {command}" if command else ""


def reservations(plan: Plan, facts: Sequence[Hello | None]) -> list[Reserve | None]:
    """Where each host is to listen: the master at the rendezvous, the others at any port; None
    where that cannot be known."""
    known = Facts(plan, facts, ())
    found: list[Reserve | None] = []
    for index, hello in enumerate(facts):
        address = network.own_address(known, index) if hello else ""
        found.append(Reserve(address, 0) if address else None)
    if all(facts):
        try:
            master = master_address(plan, [hello for hello in facts if hello])
        except PlanError:  # the first round has found it and says why
            found[0] = None
        else:
            found[0] = Reserve(master, plan.hosts[0].master_port)
    return found


def connects(reserved: Sequence[Reserved | None]) -> list[Connect | None]:
    """Whom each host is to try: the master and the next host that listens; None where there is
    nobody but itself."""
    where = [(one.address, one.port) if one and not one.error else None for one in reserved]
    found: list[Connect | None] = []
    for index, own in enumerate(where):
        behind = [other for other in (*where[index + 1 :], *where[:index]) if other]
        wanted = dict.fromkeys(
            target for target in (where[0], *behind[:1]) if target and target != own
        )
        found.append(Connect(tuple(wanted), SECONDS) if own and wanted else None)
    return found


def check_connections(
    plan: Plan,
    facts: Sequence[Hello | None],
    reserved: Sequence[Reserved | None],
    connected: Sequence[Sequence[Connected]],
) -> list[Checked]:
    """The second round: of each host that was to listen whether it does, and whether it reached
    whom it was to try."""
    known, asked = Facts(plan, facts, ()), connects(reserved)
    found: list[Checked] = []
    for index, own in enumerate(reserved):
        if own:
            found.append(_checked(index, "port", network.port(index, own)))
        if asked[index]:
            found.append(
                _checked(
                    index, "connect", network.connect(known, index, reserved, connected[index])
                )
            )
    return found


def lost(on: int, reason: str) -> Checked:
    """The check that a host failed which was lost in the second round."""
    return Checked(
        on, "connect", FAILED, reason, "see whether it is still up, then check once more"
    )


def grouped(checks: Sequence[Checked]) -> list[Checked]:
    """The checks; those that have found the same of several hosts say of which."""
    found: dict[tuple[str, ...], list[int]] = {}
    for one in checks:
        found.setdefault(_finding(one), []).append(one.on)
    return [
        replace(one, same=tuple(of)) if len(of := found[_finding(one)]) > 1 else one
        for one in checks
    ]


def _finding(one: Checked) -> tuple[str, ...]:
    """What is to be read of it. What is well is not told, but shown host by host."""
    return (one.check, one.outcome, one.text, one.advice) + (
        (str(one.on),) if one.outcome == OK else ()
    )


def is_told(checked: Checked) -> bool:
    """Whether this is the one of several equal findings that tells of all of them."""
    return checked.on == (checked.same or (checked.on,))[0]


def unfit(problem: str) -> bool:
    """Whether a host was logged in to, but its python or workdir cannot be used, by what the way
    there said."""
    return _failed(problem) in UNFIT


def refusal(names: Sequence[str], checked: Checked) -> str:
    """A failed check as the reason why a run is not started. `names` are all hosts'."""
    return whose(names, checked) + checked.text + (f"; {checked.advice}" if checked.advice else "")


def whose(names: Sequence[str], checked: Checked) -> str:
    """How a line on a check begins: with its hosts, unless what was found names them itself.
    `names` are all hosts'."""
    of = listed([names[on] for on in checked.same or (checked.on,) if 0 <= on < len(names)])
    return f"{of}: " if of and not (checked.same and of in checked.text) else ""
