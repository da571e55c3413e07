"""Hosts as other launchers take them: `-H a:4,b:4`, hostfiles of DeepSpeed, Open MPI and MPICH,
and the node file of a PBS job.

A hostfile has one host per line, `a slots=4` or `a:4`; what follows # is a comment. A host that is
named on several lines, as in a node file of PBS, has a rank for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import SLOTS, HostsError, unseen
from remote.sanitise import unseen_character

NAME = r"(?:(?P<user>[^\s@:=,#]+)@)?(?:\[(?P<bracketed>[^\]\s]+)\]|(?P<name>[^\s@:=,#\[\]]+))"
HOST = re.compile(rf"{NAME}(?::(?P<count>\S*))?")
SETTING = re.compile(r"([\w-]+)\s*=\s*(\S*)")
OTHERS = ("max_slots", "max-slots", "maxslots")
"""Settings that bound what nobody asks for here."""


@dataclass
class Named:
    """A host as a line names it, and where. `count`: as the line says, None where it does not;
    then `lines` are its ranks."""

    name: str
    user: str
    count: int | None
    place: str
    lines: int = 1

    def table(self) -> dict[str, object]:
        """Return what a [[host]] table would say."""
        user = {"user": self.user} if self.user else {}
        return {"name": self.name, "address": self.name, "slots": self.count or self.lines, **user}


def is_hostfile(text: str) -> bool:
    """Return True for a hostfile, and False for TOML. The first line of a hostfile names a host."""
    first = next(filter(None, (line.partition("#")[0].strip() for line in text.splitlines())), "")
    return bool(re.match(rf"{NAME}(?::\d+)?(?:\s+[\w-]+\s*=.*|\s+\w+)?$", first)) and not re.match(
        r"\[|[\w.\"'-]+\s*=", first
    )


def read(path: Path, text: str) -> list[dict[str, object]]:
    """Read the hosts of a hostfile. Raises: HostsError, with all mistakes and their lines."""
    lines = (
        (number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)
    )
    return _tables(
        ((f"{path}, line {number}", line) for number, line in lines if line), "a slots=4"
    )


def listed(words: str, flag: str = "-H") -> list[dict[str, object]]:
    """Read the hosts of `a:4,b:4`. Raises: HostsError."""
    parts = [part.strip() for part in words.split(",")]
    return _tables(((f"{flag} {words}", part) for part in parts), "a:4,b:4")


def _tables(lines: Iterable[tuple[str, str]], example: str) -> list[dict[str, object]]:
    found: dict[str, Named] = {}
    mistakes = []
    for place, line in lines:
        try:
            _add(found, _named(place, line, example))
        except HostsError as error:
            mistakes.append(str(error))
    if mistakes:
        raise HostsError(*mistakes)
    return [named.table() for named in found.values()]


def _add(found: dict[str, Named], named: Named) -> None:
    """Take a host; one that is there already has one rank more, unless a line says how many."""
    first = found.setdefault(named.name, named)
    if first is named:
        return
    if first.count or named.count:
        raise HostsError(
            f"{named.place}: {named.name} is there already ({first.place}): name it once, with all "
            "its slots"
        )
    first.lines += 1


def _named(place: str, line: str, example: str) -> Named:
    """Read one host. Raises: HostsError."""
    word, *rest = re.split(r"\s+", line, maxsplit=1)
    found = HOST.fullmatch(word)
    character = unseen_character(line)
    if character:
        raise HostsError(
            f"{place}: {line!r} is not a host: {unseen(character)}, such as "
            f"{example}, or [[host]] tables (README.md has an example)"
        )
    if not found:
        raise HostsError(f"{place}: {line!r} is not a host: write {example}")
    count = found["count"]
    for key, value in SETTING.findall(rest[0] if rest else ""):
        if key == "slots" and count is None:
            count = value
        elif key not in OTHERS:
            raise HostsError(f"{place}: {key} means nothing here: write {example}")
    if rest and SETTING.sub("", rest[0]).strip():
        raise HostsError(f"{place}: {line!r} is not a host: write {example}")
    if count is not None and not (count.isdecimal() and 1 <= int(count) <= SLOTS):
        raise HostsError(
            f"{place}: {count!r} is not a number of ranks: write one from 1 to {SLOTS}, as in "
            f"{example}"
        )
    name = found["bracketed"] or found["name"]
    return Named(name, found["user"] or "", int(count) if count else None, place)
