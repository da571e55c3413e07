"""What the checks before a start ask of a script: the place where its ranks meet, as far as it
fixes that itself, and whether it imports torch. Pure, but for the sources that a caller reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from remote.plan.main_program import PYTHONS
from remote.plan.pasted.arguments import GivenOption, read_given
from remote.plan.pasted.line import ReadSource, read_script, split_line
from remote.plan.pasted.meanings import MASTER_MEANINGS, Meaning
from remote.plan.pasted.script_facts import PORTS, ScriptFacts
from remote.plan.plan import FixedPlace, FixedPort
from remote.plan.python_line import python_line

_PORT_MEANINGS = (Meaning.MASTER_PORT, Meaning.MASTER_URL)
_PORT_OF_ADDRESS = re.compile(r"[^\s,]*:(\d+)/?")


def find_fixed_place(words: Sequence[str], read_source: ReadSource) -> FixedPlace:
    """Return the ports that the arguments of a script fix, or else its source, and the addresses
    that its source has."""
    ports: dict[int, FixedPort] = {}
    addresses: dict[str, None] = {}
    for folder, command in split_line(words):
        facts, num_program_words = read_script(command, folder, read_source)
        given = [*read_given(command[num_program_words:], facts)]
        for port in _find_ports(given, facts):
            ports.setdefault(port.number, port)
        # An option goes before what the source has.
        if not any(option.meaning in MASTER_MEANINGS for option in given):
            addresses |= dict.fromkeys(facts.addresses)
    return FixedPlace(tuple(ports.values()), tuple(addresses))


def imports_torch(words: Sequence[str], read_source: ReadSource) -> bool:
    """Return True if the words are a script that imports torch, run by the Python of its host."""
    python_words = python_line(words)
    if not python_words or python_words.interpreter not in ("", *PYTHONS):
        return False
    facts, _ = read_script(words, "", read_source)
    return any(module.partition(".")[0] == "torch" for module in facts.modules)


def _find_ports(given: Sequence[GivenOption], facts: ScriptFacts) -> Iterator[FixedPort]:
    for option in given:
        for number in _read_port(option.meaning, option.value):
            yield FixedPort(number, str(option))
    if any(option.meaning in _PORT_MEANINGS for option in given):
        return
    for script_option in facts.options:
        for number in _read_port(script_option.meaning, str(script_option.default)):
            yield FixedPort(number)
    yield from map(FixedPort, facts.ports)


def _read_port(meaning: Meaning | None, value: str) -> Iterator[int]:
    """Yield the port in the value of an option, if it has one in figures."""
    address = _PORT_OF_ADDRESS.fullmatch(value)
    if meaning is Meaning.MASTER_PORT and value.isdecimal():
        number_text = value
    elif meaning in MASTER_MEANINGS and address:
        number_text = address[1]
    else:
        return
    if int(number_text) in PORTS:
        yield int(number_text)
