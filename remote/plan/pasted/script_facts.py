"""What the source of a script says of its options, and of how it learns its rank. Nothing of it is
executed. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remote.plan.pasted.meanings import RANK_MEANINGS, Meaning, find_meaning_in_script

LARGEST_SOURCE = 1_000_000
"""Characters of a source that is read."""
PORTS = range(1, 65_536)
_INIT = "init_process_group"
_ADD = "add_argument"
TELLING = (_INIT, _ADD, "RANK")
"""A source without any of these words says nothing of the place of a rank."""
_RANK_POSITION = 4
"""The place of `rank` among the arguments of `init_process_group`."""
_PORT_IN_ADDRESS = re.compile(r"(?:tcp://[^:\s]*)?:(\d{4,5})/?")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_WITHOUT_VALUE = ("store_true", "store_false", "store_const", "count", "help", "version")


class ScriptOption(Struct, frozen=True):
    """An option that a script adds to its parser of arguments."""

    flags: tuple[str, ...]
    meaning: Meaning | None
    """None if it has nothing to do with the place of a rank."""
    default: object = None
    """None if there is none, or if the source has no literal for it."""
    is_required: bool = False


class ScriptFacts(Struct, frozen=True):
    """What the source of a script says."""

    options: tuple[ScriptOption, ...] = ()
    texts: frozenset[str] = frozenset()
    """The texts in quotes, among them the names of variables that it reads."""
    gives_rank: bool = False
    """It passes a rank of its own to `init_process_group`."""
    joins_without_rank: bool = False
    """It calls `init_process_group` without one, which then reads the variable RANK."""
    modules: tuple[str, ...] = ()
    """The modules that it imports."""
    ports: tuple[int, ...] = ()
    """The ports in its addresses, such as that of `tcp://10.10.1.1:6585`, and in what it sets
    MASTER_PORT to."""
    addresses: tuple[str, ...] = ()
    """The IPv4 addresses that it sets MASTER_ADDR to."""

    @property
    def reads_rank(self) -> bool:
        """Return True if the script takes its rank from its environment."""
        if "RANK" in self.texts:
            return True
        return self.joins_without_rank and not self.gives_rank

    def __or__(self, other: ScriptFacts) -> ScriptFacts:
        return ScriptFacts(
            (*self.options, *other.options),
            self.texts | other.texts,
            self.gives_rank or other.gives_rank,
            self.joins_without_rank or other.joins_without_rank,
            self.modules,
            (*self.ports, *other.ports),
            (*self.addresses, *other.addresses),
        )


def read_facts(source: str) -> ScriptFacts:
    """Return what a source says; nothing if it is no Python that this one can read."""
    if len(source) > LARGEST_SOURCE:
        return ScriptFacts()
    try:
        nodes = [*ast.walk(ast.parse(source))]
    # The parser also gives up on deep nesting and on null characters.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ScriptFacts()
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    joins = [_passes_rank(call) for call in calls if _name_of(call.func) == _INIT]
    return ScriptFacts(
        tuple(_read_options(calls)),
        frozenset(
            node.value
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ),
        gives_rank=any(joins),
        joins_without_rank=not all(joins),
        modules=tuple(_find_modules(nodes)),
        ports=tuple(_find_ports(nodes)),
        addresses=tuple(_find_addresses(nodes)),
    )


def _read_options(calls: Iterable[ast.Call]) -> Iterator[ScriptOption]:
    for call in calls:
        flags = [flag for flag in map(_literal, call.args) if isinstance(flag, str)]
        keywords = {keyword.arg: _literal(keyword.value) for keyword in call.keywords}
        is_option = _name_of(call.func) == _ADD and flags
        if not is_option or not flags[0].startswith("-"):
            continue
        if keywords.get("action") in _WITHOUT_VALUE:
            yield ScriptOption(tuple(flags), None)
            continue
        default = keywords.get("default")
        dest, help_text = keywords.get("dest") or "", keywords.get("help") or ""
        meaning = find_meaning_in_script(flags, str(dest), str(help_text))
        # Rank 8 is one of a matrix: a script is rank 0 by default, or none.
        if meaning in RANK_MEANINGS and isinstance(default, int) and default > 0:
            meaning = None
        yield ScriptOption(tuple(flags), meaning, default, keywords.get("required") is True)


def _passes_rank(call: ast.Call) -> bool:
    """Return True if a call of `init_process_group` has a rank that is no constant."""
    ranks = [keyword.value for keyword in call.keywords if keyword.arg == "rank"]
    ranks += call.args[_RANK_POSITION : _RANK_POSITION + 1]
    return any(not isinstance(rank, ast.Constant | ast.UnaryOp) for rank in ranks)


def _find_modules(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.ImportFrom):
            yield from (name.name for name in node.names)


def _find_ports(nodes: Iterable[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            # The address may be joined from parts: f"tcp://{args.ip}:6585".
            address = _PORT_IN_ADDRESS.fullmatch(node.value)
            if address and int(address[1]) in PORTS:
                yield int(address[1])
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            number_text = str(_literal(node.value))
            is_port = number_text.isdecimal() and int(number_text) in PORTS
            if is_port and _literal(node.targets[0].slice) == "MASTER_PORT":
                yield int(number_text)


def _find_addresses(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield what is assigned to MASTER_ADDR, by a text or by the name of one."""
    texts_by_name: dict[str, str] = {}
    assignments = [node for node in nodes if isinstance(node, ast.Assign)]
    for node in assignments:
        target, value = node.targets[0], _literal(node.value)
        if isinstance(target, ast.Name) and isinstance(value, str):
            texts_by_name[target.id] = value
    for node in assignments:
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or _literal(target.slice) != "MASTER_ADDR":
            continue
        value = _literal(node.value)
        if isinstance(node.value, ast.Name):
            value = texts_by_name.get(node.value.id)
        if isinstance(value, str) and _ADDRESS.fullmatch(value):
            yield value


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
