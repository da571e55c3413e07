"""The options of a sync method, declared as plain data and read *without importing the method*.

A module declares its options as one literal at its top level, so the launcher knows and checks them
without torch:

    OPTIONS = {
        "bucket_mb": {"default": 2.5, "help": "size in MB of a bucket", "above": 0},
    }

The keys of each entry are the fields of `Option`. An entry that several methods have is a name of
`SHARED`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

from training import registry
from training.mistake import NUMBERS, Mistake, MistakeError

Value = bool | int | float | str


class OptionError(MistakeError):
    """An option that cannot be used: one mistake, without a flag, whose value is the option as it
    stands on the command line."""

    def __init__(self, given: str, problem: str = "", hint: str = "") -> None:
        super().__init__(Mistake(value=given, problem=problem, hint=hint))


@dataclass(frozen=True)
class Option:
    """One option; its type is that of its default."""

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    """The values that a text may have; any where there are none."""
    low: float = -math.inf
    """The least value."""
    above: float = -math.inf
    """The value must be greater than this."""
    requires: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Other options, and the values of theirs with which this one has an effect."""
    is_rank: bool = False
    """Whether the value is the number of a rank."""
    min_ranks: int = 1
    """The number of ranks that any other value than the default needs."""

    @property
    def kind(self) -> str:
        """Return the values that can be written, such as `yes|no` or `NUMBER`."""
        return "|".join(self.choices) or KINDS[type(self.default)][0]

    def read(self, text: str) -> Value:
        """Read the value that a text stands for. Raises: OptionError."""
        option_value = self._convert_value(text)
        given_option = f"{self.name}={text}"
        if option_value is None:
            allowed_words = (
                join_words(self.choices) if self.choices else KINDS[type(self.default)][1]
            )
            raise OptionError(given_option, f"must be {allowed_words}")
        if not isinstance(option_value, str) and option_value < self.low:
            raise OptionError(given_option, f"must be at least {self.low:g}")
        if not isinstance(option_value, str) and option_value <= self.above:
            raise OptionError(given_option, f"must be greater than {self.above:g}")
        return option_value

    def check(self, values: SimpleNamespace, world_size: int) -> None:
        """Check the option against the other options and the number of ranks. Raises:
        OptionError."""
        value = getattr(values, self.name)
        given_option = f"{self.name}={format_value(value)}"
        if self.is_rank and value >= world_size:
            raise OptionError(given_option, f"ranks go from 0 to {world_size - 1}")
        if value == self.default:
            return
        if world_size < self.min_ranks:
            raise OptionError(given_option, f"needs at least {self.min_ranks} ranks; remove it")
        for other_option, allowed in self.requires.items():
            if getattr(values, other_option) not in allowed:
                needed_values = join_words(map(format_value, allowed))
                raise OptionError(
                    f"{given_option} only applies with {other_option}={needed_values}; remove it"
                )

    def _convert_value(self, text: str) -> Value | None:
        """Convert a text to the option's type. Return None if it has no such value."""
        value_type = type(self.default)
        if value_type is bool:
            return {"yes": True, "no": False}.get(text)
        if value_type is str:
            return text if text in self.choices or not self.choices else None
        with suppress(ValueError):
            number = int(text) if value_type is int else float(text)
            # Python reads `nan` and `inf` as numbers, with which no check could fail.
            return number if math.isfinite(number) else None
        return None


KINDS = {
    bool: ("yes|no", "yes or no"),
    int: ("N", NUMBERS[int]),
    float: ("NUMBER", NUMBERS[float]),
    str: ("TEXT", "a text"),
}
"""How a value of a type is written, and what it is called."""


SHARED: dict[str, dict[str, Any]] = {
    "granularity": {
        "default": "bucket",
        "help": "what is exchanged at once: each parameter, buckets, or all gradients",
        "choices": ("parameter", "bucket", "flat"),
    },
    "granularity of buckets": {
        "default": "bucket",
        "help": "what is exchanged at once: buckets, or all gradients",
        "choices": ("bucket", "flat"),
    },
    "bucket_mb": {
        "default": 2.5,
        "help": "size in MB at which a bucket is closed",
        "above": 0,
        "requires": {"granularity": ("bucket",)},
    },
}
"""Entries that several methods have."""


@cache
def declared_options(method: str) -> tuple[Option, ...]:
    """Return the options of a sync method. Raises: registry.UnknownName."""
    declared_entries = registry.read_constant("sync", method, "OPTIONS", {})
    return tuple(
        Option(name, **(SHARED[entry] if isinstance(entry, str) else entry))
        for name, entry in declared_entries.items()
    )


def parse_options(known_options: Iterable[Option], words: Iterable[str]) -> SimpleNamespace:
    """Read the values that `words`, each `key=value`, give to the known options. An option that no
    word names has its default. Raises: OptionError."""
    option_by_name = {option.name: option for option in known_options}
    value_by_name = {name: option.default for name, option in option_by_name.items()}
    for word in words:
        key, equals, text = word.partition("=")
        if key not in option_by_name:
            similar_hint = registry.did_you_mean(key, option_by_name)
            all_known = describe_options(option_by_name.values()) or "none"
            raise OptionError(word, f"unknown option {key!r}{similar_hint} (known: {all_known})")
        if not equals:
            raise OptionError(word, f"write {key}={option_by_name[key].kind}")
        value_by_name[key] = option_by_name[key].read(text)
    return SimpleNamespace(**value_by_name)


def find_errors(method: str, words: Iterable[str]) -> list[OptionError]:
    """Find the words, `key=value`, that are no options of the method; for an unknown method, those
    that are no options of any."""
    methods = registry.list_names("sync")
    option_errors: list[OptionError] = []
    for word in words:
        try:
            if method in methods:
                parse_options(declared_options(method), (word,))
            else:
                _check_any(word, methods)
        except OptionError as error:
            option_errors.append(error)
    return option_errors


def _check_any(word: str, methods: Iterable[str]) -> None:
    """Refuse an option that no method has. Raises: OptionError."""
    key = word.partition("=")[0]
    known_names = {option.name for method in methods for option in declared_options(method)}
    if key not in known_names:
        similar_hint = (
            registry.did_you_mean(key, sorted(known_names)) or ": rankboard --help lists all"
        )
        raise OptionError(word, f"no sync method has an option {key!r}{similar_hint}")


def describe_options(known: Iterable[Option]) -> str:
    """Describe the options in one line: `granularity=parameter|bucket (bucket), bucket_mb=NUMBER
    (25)`."""
    return ", ".join(
        f"{option.name}={option.kind} ({format_value(option.default)})" for option in known
    )


def format_value(value: Any) -> str:
    """Write a value as on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def join_words(words: Iterable[str]) -> str:
    """Join the words as alternatives: "a, b or c"."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
