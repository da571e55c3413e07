"""Select and sort recorded runs by words such as `sync=ring nodes=4 loss<0.5 star`.

A word with an operator compares a key. A word without one is a flag, or a text to look for.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

from remote.record.entry import VERDICTS, Entry
from training import options, registry
from training.job import SEVERAL, Job, choices_of
from training.registry import UnknownName, did_you_mean

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
WORD = re.compile(r"([\w/-]+?)\s*(<=|>=|!=|==?|<|>)\s*(.*)", re.DOTALL)
MOMENT = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")
TEXT = "a text"
NUMBER = "a number"
TIME = "a date such as 2026-11-20"
FLAG = "yes or no"
"""What the values of a key are, as messages name it."""
EXAMPLE = {NUMBER: "0.5", TIME: "2026-11-20"}
"""By the kinds of values that have an order."""
TEXTS = ("name", "label", "script", "verdict", "cause", "note", "study", "trial")
"""Fields of a run in which a word without an operator is looked for."""
FIGURES = ("ranks", "step", "loss", "test_loss", "accuracy", "step_seconds", "elapsed")
"""Fields of a run that are numbers."""
Test = Callable[[Entry], bool]


class QueryError(ValueError):
    """Words that choose no runs; the text has a line for each mistake."""


@dataclass(frozen=True)
class QueryKey:
    """What runs can be compared by."""

    name: str
    kind: str
    """TEXT, NUMBER, TIME or FLAG."""
    get_values: Callable[[Entry], Sequence[Any]]
    """Returns the values of a run; none if they are not known. Those of a TIME are texts that begin
    with the year, those of a FLAG "yes" or "no"."""
    check: Callable[[str], object] | None = None
    """Raises UnknownName for a text that no run can have. None: there are no such texts."""


def parse(words: Iterable[str]) -> Test:
    """Return the test that a run passes if all of the words fit. Raises: QueryError, with all
    mistakes."""
    tests = []
    mistakes = []
    for word in words:
        try:
            tests.append(_test(word))
        except (QueryError, UnknownName) as error:
            mistakes.append(str(error))
    if mistakes:
        raise QueryError("\n".join(mistakes))
    return lambda run: all(test(run) for test in tests)


def without_unstarted(runs: Sequence[Entry]) -> Sequence[Entry]:
    """Leave out the runs that ended without a step, such as one whose host had a typing error:
    they hide the others. Runs with a star stay, and so do all where there are no others."""
    started = [run for run in runs if run.star or not run.made_no_step]
    return started or runs


def sort_runs(runs: Iterable[Entry], name: str, reverse: bool = False) -> list[Entry]:
    """Sort runs by a key, the least first; those of which it is not known come last. Raises:
    QueryError."""
    key = _find_key(name, f"--sort {name}")
    known = list[Entry]()
    unknown = list[Entry]()
    for run in runs:
        has_value = len(key.get_values(run)) > 0
        (known if has_value else unknown).append(run)
    known.sort(key=lambda run: list(key.get_values(run)), reverse=reverse)
    return known + unknown


# Words --------------------------------------------------------------------------------------------


def _test(word: str) -> Test:
    """Return the test that one word stands for. Raises: QueryError, UnknownName."""
    match = WORD.fullmatch(word)
    if not match:
        return _bare(word)
    name, sign, text = match.groups()
    key = _find_key(name, word)
    if sign in COMPARE:
        if key.kind not in EXAMPLE:
            raise QueryError(f"{word}: {key.name} is {key.kind}: compare it with = or !=")
        return _comparison(key, COMPARE[sign], text, word)
    alternatives = [_equality(key, part.strip(), word) for part in text.split(",")]
    is_negated = sign == "!="
    return lambda run: any(test(run) for test in alternatives) is not is_negated


def _bare(word: str) -> Test:
    """Return the test of a flag, or of a text anywhere in what names and describes a run.
    Raises: QueryError."""
    key = _keys().get(word)
    if key and key.kind is FLAG:
        return lambda run: key.get_values(run) == ["yes"]
    if key and key.kind in EXAMPLE:
        example = f"'{word}<{EXAMPLE[key.kind]}'"
        raise QueryError(
            f"{word}: write what to compare it with, in quotes, such as {example}: the shell takes "
            "< and > for files"
        )
    lowered = word.casefold()
    return lambda run: any(lowered in text.casefold() for text in _texts(run))


def _texts(run: Entry) -> Iterable[str]:
    yield from (getattr(run, field) for field in TEXTS)
    yield from run.hosts
    if run.job is not None:
        yield from map(run.setting, ("sync", "model", "dataset"))
        yield from run.setting("sync_option")


def _comparison(key: QueryKey, compare: Callable[[Any, Any], bool], text: str, word: str) -> Test:
    if key.kind is NUMBER:
        number = _parse_number(text, word)
        return lambda run: any(compare(value, number) for value in key.get_values(run))
    moment = _parse_moment(text, word)
    size = len(moment)  # a moment may be a mere year
    return lambda run: any(compare(value[:size], moment) for value in key.get_values(run))


def _equality(key: QueryKey, text: str, word: str) -> Test:
    """Return the test that a value of the key is this. Raises: QueryError, UnknownName."""
    if not text:
        return lambda run: not key.get_values(run)
    if key.kind is NUMBER:
        number = _parse_number(text, word)
        return lambda run: number in key.get_values(run)
    pattern = text
    if key.kind is TIME:
        pattern = f"{_parse_moment(text, word)}*"
    elif key.kind is FLAG and text not in ("yes", "no"):
        raise QueryError(f"{word}: write {key.name}=yes or {key.name}=no")
    elif key.check and not re.search(r"[*?[]", text):
        key.check(text)
    return lambda run: any(fnmatchcase(value, pattern) for value in key.get_values(run))


def _parse_number(text: str, word: str) -> float:
    """Return the number of a text such as 0.5 or 60%. Raises: QueryError."""
    with suppress(ValueError):
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    raise QueryError(f"{word}: {text or 'nothing'} is not a number")


def _parse_moment(text: str, word: str) -> str:
    if not MOMENT.fullmatch(text):
        raise QueryError(f"{word}: write {TIME} or 2026-11-20T09:30")
    return text.replace("T", " ")


# Keys ---------------------------------------------------------------------------------------------


def _find_key(name: str, word: str) -> QueryKey:
    """Return the key of a name. Raises: QueryError."""
    plain = name.replace("-", "_")
    key = _keys().get(plain) or _option_keys().get(plain)
    if not key:
        near = did_you_mean(plain, {**_option_keys(), **_keys()})
        raise QueryError(f"{word}: runs have no {name!r}{near or ' (rankboard runs --help)'}")
    return key


@cache
def _keys() -> dict[str, QueryKey]:
    """Return the keys by name, without options: settings of jobs, and what became of a run."""
    keys = {setting.name: _job_key(setting) for setting in fields(Job)}
    texts = {"run": "name", "name": "label"} | {
        name: name for name in ("script", "cause", "note", "study", "trial")
    }
    keys |= {name: _field_key(name, TEXT, field) for name, field in texts.items()}
    keys |= {name: _field_key(name, NUMBER, name) for name in FIGURES}
    keys |= {name: _field_key(name, FLAG, name) for name in ("star", "diverged")}
    check_verdict = partial(_check_known, "verdict", VERDICTS)
    others = (
        QueryKey("host", TEXT, lambda run: run.hosts),
        QueryKey("nodes", NUMBER, lambda run: [len(run.hosts)] if run.hosts else []),
        QueryKey("verdict", TEXT, lambda run: [run.verdict], check_verdict),
        QueryKey("started", TIME, lambda run: _local(run.started)),
    )
    keys |= {key.name: key for key in others}
    return keys | {"method": keys["sync"], "s/iter": keys["step_seconds"]}


def _field_key(name: str, kind: str, field: str) -> QueryKey:
    return QueryKey(name, kind, lambda run: _known(getattr(run, field)))


def _known(value: Any) -> Sequence[Any]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, list):
        return value
    return [] if value in (None, "") else [value]


def _local(when: float | None) -> list[str]:
    """Return a Unix time as local date and time, if it is one."""
    with suppress(OverflowError, ValueError, OSError):
        return [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))] if when else []
    return []


def _check_known(what: str, known: Sequence[str], word: str) -> None:
    """Raises: UnknownName, for a word that is not known."""
    if word not in known:
        near = did_you_mean(word, known)
        raise UnknownName(f"unknown {what} {word!r}{near} (known: {', '.join(known)})")


def _job_key(setting: Any) -> QueryKey:
    name = setting.name
    kind = {"bool": FLAG, "str": TEXT, SEVERAL: TEXT}.get(str(setting.type), NUMBER)

    def check(word: str) -> None:
        folder = setting.metadata["folder"]
        known = choices_of(setting)
        if folder:
            registry.split_name(folder, word)
        elif known:
            _check_known(name, known, word)

    return QueryKey(name, kind, lambda run: _known(run.setting(name)), check)


@cache
def _option_keys() -> dict[str, QueryKey]:
    """Return the options of all sync methods, as keys by name. This reads the methods' sources."""
    defaults: dict[str, dict[str, Any]] = {}
    for method in registry.list_names("sync"):
        for option in options.declared_options(method):
            defaults.setdefault(option.name, {})[method] = option.default
    return {name: _option_key(name, by_method) for name, by_method in defaults.items()}


def _option_key(name: str, defaults: Mapping[str, Any]) -> QueryKey:
    """Return the key of an option with these defaults by sync method; runs whose sync method has no
    such option have no value."""
    is_number = all(type(default) in (int, float) for default in defaults.values())

    def get_values(run: Entry) -> Sequence[Any]:
        method = run.setting("sync")
        if method not in defaults:
            return []
        given = dict(word.partition("=")[::2] for word in run.setting("sync_option"))
        text = given.get(name, options.format_value(defaults[method]))
        if not is_number:
            return [text]
        with suppress(ValueError):
            return [float(text)]
        return []

    return QueryKey(name, NUMBER if is_number else TEXT, get_values)
