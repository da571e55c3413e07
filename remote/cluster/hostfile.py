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
    content_lines = _strip_comments(text)
    first_line = content_lines[0][1] if content_lines else ""
    if re.match(r"\[|[\w.\"'-]+\s*=", first_line):  # a table or a setting in TOML
        return False
    return re.match(rf"{NAME}(?::\d+)?(?:\s+[\w-]+\s*=.*|\s+\w+)?$", first_line) is not None


def _strip_comments(text: str) -> list[tuple[int, str]]:
    """Return the lines that say something, with their numbers."""
    numbered_lines = enumerate((line.partition("#")[0].strip() for line in text.splitlines()), 1)
    return [(line_number, line) for line_number, line in numbered_lines if line]


def read(path: Path, text: str) -> list[dict[str, object]]:
    """Read the hosts of a hostfile. Raises: HostsError, with all mistakes and their lines."""
    placed_lines = [
        (f"{path}, line {line_number}", line) for line_number, line in _strip_comments(text)
    ]
    return _make_tables(placed_lines, "a slots=4")


def find_host_lines(text: str) -> list[int]:
    """Return the line that first names each host of a hostfile, in rank order. Raises:
    HostsError."""
    line_by_name: dict[str, int] = {}
    for line_number, line in _strip_comments(text):
        line_by_name.setdefault(_parse_line("", line, "").name, line_number)
    return list(line_by_name.values())


def listed(hosts_text: str, flag_name: str = "-H") -> list[dict[str, object]]:
    """Read the hosts of `a:4,b:4`. Raises: HostsError."""
    host_words = [host_word.strip() for host_word in hosts_text.split(",")]
    return _make_tables(
        ((f"{flag_name} {hosts_text}", host_word) for host_word in host_words), "a:4,b:4"
    )


def _make_tables(lines: Iterable[tuple[str, str]], example: str) -> list[dict[str, object]]:
    """Read lines, each with its place. Raises: HostsError, with all mistakes."""
    hosts: dict[str, HostLine] = {}
    mistakes = []
    for line_place, line in lines:
        try:
            mentioned_host = _parse_line(line_place, line, example)
        except HostsError as error:
            mistakes.append(str(error))
            continue
        first_mention = hosts.setdefault(mentioned_host.name, mentioned_host)
        if first_mention is mentioned_host:
            continue
        # With a number on either line, nobody can tell whether they are to be added.
        if first_mention.count or mentioned_host.count:
            problem = (
                f"{line_place}: {mentioned_host.name} is there already ({first_mention.place})"
            )
            mistakes.append(f"{problem}: name it once, with all its slots")
        first_mention.lines += 1  # a node file of PBS names a host once for each of its ranks
    if mistakes:
        raise HostsError(*mistakes)
    return [mentioned_host.to_table() for mentioned_host in hosts.values()]


def _parse_line(line_place: str, line: str, example: str) -> HostLine:
    """Read one host. Raises: HostsError."""
    host_word, _, settings_text = line.replace("\t", " ").partition(" ")
    host_match = HOST.fullmatch(host_word)
    # Asked first: such a line looks right, so that only this tells what is wrong.
    unseen_name_character = unseen_character(line)
    if unseen_name_character:
        raise HostsError(
            f"{line_place}: {line!r} is not a host: {unseen(unseen_name_character)}, such as "
            f"{example}, or [[host]] tables"
        )
    if not host_match or SETTING.sub("", settings_text).strip():
        raise HostsError(f"{line_place}: {line!r} is not a host: write {example}")
    rank_count = host_match["count"]
    for setting_name, setting_value in SETTING.findall(settings_text):
        if setting_name == "slots" and rank_count is None:
            rank_count = setting_value
        elif setting_name not in OTHERS:
            raise HostsError(f"{line_place}: {setting_name} means nothing here: write {example}")
    if rank_count is not None and not (rank_count.isdecimal() and 1 <= int(rank_count) <= SLOTS):
        raise HostsError(
            f"{line_place}: {rank_count!r} is not a number of ranks: write one from 1 to {SLOTS}, "
            f"as in {example}"
        )
    host_name = host_match["bracketed"] or host_match["name"]
    return HostLine(host_name, host_match["user"] or "", int(rank_count or 0), line_place)
