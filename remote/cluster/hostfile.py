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
class HostLine:
    """A host as a line names it."""

    name: str
    user: str
    count: int
    """Its ranks; 0 if the line does not say."""
    place: str
    """The file and line, for messages."""
    lines: int = 1
    """How many lines name it. These are its ranks if none says how many."""

    def to_table(self) -> dict[str, object]:
        """Return what a [[host]] table would say."""
        slots = self.count or self.lines
        table = {"name": self.name, "address": self.name, "slots": slots, "user": self.user}
        return {key: value for key, value in table.items() if value}


def is_hostfile(text: str) -> bool:
    """Return True for a hostfile, and False for TOML. The first line of a hostfile names a host."""
    lines = _strip_comments(text)
    first = lines[0][1] if lines else ""
    if re.match(r"\[|[\w.\"'-]+\s*=", first):  # a table or a setting in TOML
        return False
    return re.match(rf"{NAME}(?::\d+)?(?:\s+[\w-]+\s*=.*|\s+\w+)?$", first) is not None


def _strip_comments(text: str) -> list[tuple[int, str]]:
    """Return the lines that say something, with their numbers."""
    lines = enumerate((line.partition("#")[0].strip() for line in text.splitlines()), 1)
    return [(number, line) for number, line in lines if line]


def read(path: Path, text: str) -> list[dict[str, object]]:
    """Read the hosts of a hostfile. Raises: HostsError, with all mistakes and their lines."""
    lines = [(f"{path}, line {number}", line) for number, line in _strip_comments(text)]
    return _make_tables(lines, "a slots=4")


def listed(words: str, flag: str = "-H") -> list[dict[str, object]]:
    """Read the hosts of `a:4,b:4`. Raises: HostsError."""
    parts = [part.strip() for part in words.split(",")]
    return _make_tables(((f"{flag} {words}", part) for part in parts), "a:4,b:4")


def _make_tables(lines: Iterable[tuple[str, str]], example: str) -> list[dict[str, object]]:
    """Read lines, each with its place. Raises: HostsError, with all mistakes."""
    hosts: dict[str, HostLine] = {}
    mistakes = []
    for place, line in lines:
        try:
            host = _parse_line(place, line, example)
        except HostsError as error:
            mistakes.append(str(error))
            continue
        first = hosts.setdefault(host.name, host)
        if first is host:
            continue
        if first.count or host.count:
            problem = f"{place}: {host.name} is there already ({first.place})"
            mistakes.append(f"{problem}: name it once, with all its slots")
        first.lines += 1  # a node file of PBS names a host once for each of its ranks
    if mistakes:
        raise HostsError(*mistakes)
    return [host.to_table() for host in hosts.values()]


def _parse_line(place: str, line: str, example: str) -> HostLine:
    """Read one host. Raises: HostsError."""
    word, _, settings = line.replace("\t", " ").partition(" ")
    match = HOST.fullmatch(word)
    character = unseen_character(line)
    if character:
        raise HostsError(
            f"{place}: {line!r} is not a host: {unseen(character)}, such as "
            f"{example}, or [[host]] tables (README.md has an example)"
        )
    if not match or SETTING.sub("", settings).strip():
        raise HostsError(f"{place}: {line!r} is not a host: write {example}")
    count = match["count"]
    for key, value in SETTING.findall(settings):
        if key == "slots" and count is None:
            count = value
        elif key not in OTHERS:
            raise HostsError(f"{place}: {key} means nothing here: write {example}")
    if count is not None and not (count.isdecimal() and 1 <= int(count) <= SLOTS):
        raise HostsError(
            f"{place}: {count!r} is not a number of ranks: write one from 1 to {SLOTS}, as in "
            f"{example}"
        )
    name = match["bracketed"] or match["name"]
    return HostLine(name, match["user"] or "", int(count or 0), place)
