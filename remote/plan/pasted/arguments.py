"""Arguments that somebody typed on one node: those that have to differ from rank to rank, and
placeholders in their place. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remote.plan import placeholders
from remote.plan.pasted.meanings import (
    MASTER_MEANINGS,
    RANK_MEANINGS,
    SIZE_MEANINGS,
    Meaning,
    find_meaning,
)
from remote.plan.pasted.script_facts import ScriptFacts, ScriptOption
from remote.plan.placeholders import Placeholder

_ADDRESS = re.compile(r"(?P<scheme>tcp://)?(?:[\w.-]+|\[[0-9A-Fa-f:]+\])(?P<port>:\d+)?/?")


class GivenOption(Struct, frozen=True):
    """An option among arguments that has to do with the place of a rank."""

    flag: str
    meaning: Meaning
    value: str
    value_index: int
    """The index of the argument that has the value."""
    prefix: str = ""
    """What stands before the value in that argument, such as `--rank=`."""

    def __str__(self) -> str:
        return f"{self.prefix or f'{self.flag} '}{self.value}"


class RewrittenArguments(Struct, frozen=True):
    """Arguments with placeholders."""

    arguments: tuple[str, ...]
    added: tuple[str, ...] = ()
    """Options that were not typed, as the script has defaults for them."""
    added_index: int = 0
    """The index of the argument behind which they belong."""
    shared: str = ""
    """What all ranks would share, as it was typed, such as `--rank 0`; "" if it was not typed."""
    own_workers: str = ""
    """The option by which each of several ranks of a host starts several workers, such as
    `--nproc 2`; "" if none does."""


def rewrite_arguments(
    arguments: Sequence[str], facts: ScriptFacts, *, is_one_per_host: bool
) -> RewrittenArguments | None:
    """Return arguments with placeholders in them, or None if each rank can have them as they are.

    `facts` are those of the script that gets them. `is_one_per_host`: no host has several ranks.
    """
    given = [*read_given(arguments, facts)]
    places = Places.find({option.meaning for option in given}, facts)
    changed = [option for option in given if places.new_value(option) != option.value]
    ranks = [option for option in given if option.meaning in RANK_MEANINGS]
    if ranks:
        needs_places = _has_literal_rank(ranks, changed, places, is_one_per_host)
    else:
        needs_places = bool(changed) and _lacks_rank(facts, places)
    if not needs_places:
        return None
    words = list(arguments)
    for option in changed:
        words[option.value_index] = option.prefix + places.new_value(option)
    return RewrittenArguments(
        tuple(words),
        added=tuple(_find_missing(given, facts, places)),
        added_index=max(option.value_index for option in given),
        shared=next((str(option) for option in ranks if option in changed), ""),
        own_workers="" if is_one_per_host else _find_workers(given, changed),
    )


def _find_workers(given: Sequence[GivenOption], changed: Sequence[GivenOption]) -> str:
    """Return the option that lets each start of the script start several workers; "" if none."""
    for option in given:
        is_number = option.meaning is Meaning.LOCAL_WORLD_SIZE and option.value.isdecimal()
        if is_number and option not in changed and int(option.value) > 1:
            return str(option)
    return ""


def _has_literal_rank(
    ranks: Sequence[GivenOption],
    changed: Sequence[GivenOption],
    places: Places,
    is_one_per_host: bool,
) -> bool:
    """Return True if a rank was typed as a number, which only one node can have."""
    literal_ranks = [option for option in ranks if option in changed]
    if all(places.is_local(option.meaning) for option in ranks):
        return bool(literal_ranks) and not is_one_per_host
    # Another number alone need not be a rank's: --rank 8 may be the rank of a matrix.
    has_other_places = len(changed) > len(literal_ranks)
    is_node_0 = any(int(option.value) == 0 for option in literal_ranks)
    return bool(literal_ranks) and (has_other_places or is_node_0)


def _lacks_rank(facts: ScriptFacts, places: Places) -> bool:
    """Return True if a script learns its rank by an option alone, which was not typed: on node 0,
    its default is right."""
    known_meanings = {option.meaning for option in facts.options}
    can_be_given = any(
        meaning in known_meanings and not places.is_local(meaning) for meaning in RANK_MEANINGS
    )
    return can_be_given and not facts.reads_rank


def read_given(arguments: Sequence[str], facts: ScriptFacts) -> Iterator[GivenOption]:
    """Yield the options among arguments that have to do with the place of a rank."""
    for index, argument in enumerate(arguments):
        if not re.match(r"-{1,2}[A-Za-z]", argument):
            continue
        flag, equals, value = argument.partition("=")
        option = _find_option(flag, facts.options)
        if option is None and not argument.startswith("--"):
            # The value may follow at once, as in `-r0`.
            option = _find_option(argument[:2], facts.options)
            flag, equals, value = argument[:2], argument[2:], argument[2:]
        meaning = option.meaning if option else find_meaning(flag)
        if meaning is None:
            continue
        if equals:
            prefix = argument.removesuffix(value)
            yield GivenOption(flag, meaning, value, index, prefix)
        elif index + 1 < len(arguments):
            yield GivenOption(flag, meaning, arguments[index + 1], index + 1)


def _find_option(flag: str, options: Iterable[ScriptOption]) -> ScriptOption | None:
    """Return the option of a script that a flag names, also by its beginning, as argparse does."""
    beginning: list[ScriptOption] = []
    for option in options:
        if flag in option.flags:
            return option
        if flag.startswith("--") and any(name.startswith(flag) for name in option.flags):
            beginning.append(option)
    return beginning[0] if len(beginning) == 1 else None


class Places(Struct, frozen=True):
    """What the options of one command line stand for, seen together."""

    is_local_global: bool
    """The option for a local rank wants the global one, as nothing else gives the script that."""
    counts_hosts: bool
    """Hosts are counted beside ranks. Else each start of the script is a node of its own, also if
    several are on one host."""

    @classmethod
    def find(cls, given: set[Meaning], facts: ScriptFacts) -> Places:
        known = given | {option.meaning for option in facts.options}
        has_own_rank = not known.isdisjoint((Meaning.RANK, Meaning.NODE_RANK))
        has_world = not given.isdisjoint((*SIZE_MEANINGS, *MASTER_MEANINGS))
        is_local_global = (
            not has_own_rank and not facts.reads_rank and (has_world or facts.gives_rank)
        )
        has_local = Meaning.LOCAL_RANK in given and not is_local_global
        counts_hosts = has_local or given >= {Meaning.RANK, Meaning.NODE_RANK}
        if Meaning.NODE_RANK in given and "LOCAL_RANK" in facts.texts:
            counts_hosts = True
        return cls(is_local_global, counts_hosts)

    def is_local(self, meaning: Meaning) -> bool:
        """Return True if the value is the number of a rank on its host."""
        return meaning is Meaning.LOCAL_RANK and not self.is_local_global

    def placeholder(self, meaning: Meaning) -> Placeholder | None:
        """Return what stands for a number; None if it is the same for all ranks."""
        rank, size = placeholders.RANK, placeholders.WORLD_SIZE
        of_host = self.counts_hosts
        numbers = {
            Meaning.RANK: rank,
            Meaning.LOCAL_RANK: placeholders.LOCAL_RANK if self.is_local(meaning) else rank,
            Meaning.NODE_RANK: placeholders.NODE_RANK if of_host else rank,
            Meaning.WORLD_SIZE: size,
            Meaning.NODES: placeholders.NODES if of_host else size,
            Meaning.LOCAL_WORLD_SIZE: placeholders.LOCAL_WORLD_SIZE if of_host else None,
            Meaning.MASTER_PORT: placeholders.MASTER_PORT,
        }
        return numbers.get(meaning)

    def new_value(self, option: GivenOption) -> str:
        """Return what a rank gets in place of a value that was typed."""
        meaning, value = option.meaning, option.value
        if value.isdecimal():
            return str(self.placeholder(meaning) or value)
        address = _ADDRESS.fullmatch(value)
        is_url = meaning is Meaning.MASTER_URL
        if meaning not in MASTER_MEANINGS or not address or (is_url and not address["scheme"]):
            return value
        port_text = f":{placeholders.MASTER_PORT}" if address["port"] else ""
        return f"{address['scheme'] or ''}{placeholders.MASTER_ADDR}{port_text}"

    def usual_value(self, meaning: Meaning) -> str:
        """Return what a rank gets for an option that was not typed."""
        if meaning is Meaning.MASTER_URL:
            return f"tcp://{placeholders.MASTER_ADDR}:{placeholders.MASTER_PORT}"
        if meaning is Meaning.MASTER_ADDR:
            return str(placeholders.MASTER_ADDR)
        # A start of the script that is a node of its own has one rank.
        return str(self.placeholder(meaning) or 1)


def _find_missing(
    given: Sequence[GivenOption], facts: ScriptFacts, places: Places
) -> Iterator[str]:
    """Yield options and values for the place of a rank that were not typed, as the script has
    defaults for them: these are of its author's nodes."""
    given_meanings = {option.meaning for option in given}
    groups: tuple[tuple[Meaning, ...], ...] = (RANK_MEANINGS, SIZE_MEANINGS, MASTER_MEANINGS)
    for group in groups:
        if not given_meanings.isdisjoint(group):
            continue
        for option in facts.options:
            meaning = option.meaning
            if meaning not in group or meaning is None or places.is_local(meaning):
                continue
            flag = max(option.flags, key=len)
            default = "" if option.default is None else str(option.default).lstrip("-")
            is_of_node = places.new_value(GivenOption(flag, meaning, default, 0)) != default
            if meaning in RANK_MEANINGS or option.is_required or is_of_node:
                yield flag
                yield places.usual_value(meaning)
                break
