"""Which recorded runs are meant, and in which order: `sync=ring nodes=4 loss<0.5 star`.

A word with an operator compares a key. A word without one is a flag, or a text to look for.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from remote.record.entry import VERDICTS, Entry
from training import options, registry
from training.job import SEVERAL, Job, choices
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
FIGURES = ("ranks", "step", "loss", "test_loss", "accuracy", "step_seconds", "elapsed")
"""Fields of a run that are numbers."""
Test = Callable[[Entry], bool]


class QueryError(ValueError):
    """Words that choose no runs; the text has a line for each mistake."""


@dataclass(frozen=True)
class Key:
    """What runs can be compared by: `of` gives the values of a run, none where they are not
    known. `check` raises UnknownName for a text that no run can have."""

    name: str
    kind: str
    of: Callable[[Entry], Sequence[Any]]
    check: Callable[[str], object] = str


def parse(words: Iterable[str]) -> Test:
    """The test that a run has to pass: all of the words. Raises: QueryError, with all mistakes."""
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
    kept = [run for run in runs if run.star or not run.made_no_step]
    return kept or runs


def ordered(runs: Iterable[Entry], name: str, reverse: bool = False) -> list[Entry]:
    """The runs by a key, the least first; those of which it is not known come last. Raises:
    QueryError."""
    key = _key(name, f"--sort {name}")
    found = [(list(key.of(run)), run) for run in runs]
    known = [one for one in found if one[0]]
    known.sort(key=lambda one: one[0], reverse=reverse)
    return [run for _, run in known] + [run for values, run in found if not values]


# Words --------------------------------------------------------------------------------------------


def _test(word: str) -> Test:
    """The test that one word stands for. Raises: QueryError, UnknownName."""
    found = WORD.fullmatch(word)
    if not found:
        return _bare(word)
    key = _key(found[1], word)
    sign = found[2].replace("==", "=")
    text = found[3]
    if sign in COMPARE:
        if key.kind in (TEXT, FLAG):
            raise QueryError(f"{word}: {key.name} is {key.kind}: compare it with = or !=")
        return _comparison(key, COMPARE[sign], text, word)
    alternatives = [_equality(key, part.strip(), word) for part in text.split(",")]
    if sign == "=":
        return lambda run: any(test(run) for test in alternatives)
    return lambda run: not any(test(run) for test in alternatives)


def _bare(word: str) -> Test:
    """A flag, or a text anywhere in what names and describes a run. Raises: QueryError."""
    key = _keys().get(word)
    if key and key.kind is FLAG:
        return lambda run: key.of(run) == [True]
    if key and key.kind in (NUMBER, TIME):
        example = f"'{word}<{EXAMPLE[key.kind]}'"
        raise QueryError(
            f"{word}: write what to compare it with, in quotes, such as {example}: the shell takes "
            "< and > for files"
        )
    wanted = word.casefold()
    return lambda run: any(wanted in text.casefold() for text in _texts(run))


def _texts(run: Entry) -> Iterable[str]:
    yield from (run.name, run.label, run.script, run.verdict, run.cause, run.note)
    yield from (run.study, run.trial)
    yield from run.hosts
    if run.job is not None:
        yield from (run.setting("sync"), run.setting("model"), run.setting("dataset"))
        yield from run.setting("sync_option")


def _comparison(key: Key, compare: Callable[[Any, Any], bool], text: str, word: str) -> Test:
    if key.kind is TIME:
        wanted: Any = _moment(text, word)
        return lambda run: any(compare(_local(one)[: len(wanted)], wanted) for one in key.of(run))
    wanted = _number(text, word)
    return lambda run: any(compare(one, wanted) for one in key.of(run))


def _equality(key: Key, text: str, word: str) -> Test:
    """Whether a value of the key is this. Raises: QueryError, UnknownName."""
    if not text:
        return lambda run: not key.of(run)
    match key.kind:
        case kind if kind is NUMBER:
            wanted = _number(text, word)
            return lambda run: wanted in key.of(run)
        case kind if kind is TIME:
            when = _moment(text, word)
            return lambda run: any(_local(one).startswith(when) for one in key.of(run))
        case kind if kind is FLAG:
            if text not in ("yes", "no"):
                raise QueryError(f"{word}: write {key.name}=yes or {key.name}=no")
            return lambda run: key.of(run) == [text == "yes"]
    if set(text) & set("*?["):
        return lambda run: any(fnmatchcase(one, text) for one in key.of(run))
    key.check(text)
    return lambda run: text in key.of(run)


def _number(text: str, word: str) -> float:
    """The number of a text such as 0.5 or 60%. Raises: QueryError."""
    with suppress(ValueError):
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    raise QueryError(f"{word}: {text or 'nothing'} is not a number")


def _moment(text: str, word: str) -> str:
    if not MOMENT.fullmatch(text):
        raise QueryError(f"{word}: write {TIME} or 2026-11-20T09:30")
    return text.replace("T", " ")


def _local(when: float) -> str:
    """A Unix time as local date and time."""
    with suppress(OverflowError, ValueError, OSError):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
    return ""


# Keys ---------------------------------------------------------------------------------------------


def _key(name: str, word: str) -> Key:
    """The key of a name. Raises: QueryError."""
    plain = name.replace("-", "_")
    found = _keys().get(plain) or _option_keys().get(plain)
    if not found:
        near = did_you_mean(plain, {**_option_keys(), **_keys()})
        raise QueryError(f"{word}: runs have no {name!r}{near or ' (rankboard runs --help)'}")
    return found


@cache
def _keys() -> dict[str, Key]:
    """The keys by name, without options: settings of jobs, and what became of a run."""
    found = {setting.name: _job_key(setting) for setting in fields(Job)}
    found["method"] = found["sync"]
    columns = (
        Key("run", TEXT, lambda run: [run.name]),
        Key("host", TEXT, lambda run: run.hosts),
        Key("nodes", NUMBER, lambda run: [len(run.hosts)] if run.hosts else []),
        Key("script", TEXT, lambda run: _known(run.script)),
        Key("verdict", TEXT, lambda run: [run.verdict], _check_verdict),
        Key("cause", TEXT, lambda run: _known(run.cause)),
        Key("note", TEXT, lambda run: _known(run.note)),
        Key("name", TEXT, lambda run: _known(run.label)),
        Key("study", TEXT, lambda run: _known(run.study)),
        Key("trial", TEXT, lambda run: _known(run.trial)),
        Key("star", FLAG, lambda run: [run.star]),
        Key("diverged", FLAG, lambda run: [run.diverged]),
        Key("started", TIME, lambda run: _known(run.started)),
        *map(_figure, FIGURES),
    )
    found |= {key.name: key for key in columns}
    found["s/iter"] = found["step_seconds"]
    return found


def _figure(name: str) -> Key:
    return Key(name, NUMBER, lambda run: _known(getattr(run, name)))


def _known(value: Any) -> list[Any]:
    return [] if value in (None, "") else [value]


def _check_verdict(word: str) -> None:
    if word not in VERDICTS:
        near = did_you_mean(word, VERDICTS)
        raise UnknownName(f"unknown verdict {word!r}{near} (known: {', '.join(VERDICTS)})")


def _job_key(setting: Any) -> Key:
    kind = {"bool": FLAG, "str": TEXT, SEVERAL: TEXT}.get(str(setting.type), NUMBER)

    def of(run: Entry) -> Sequence[Any]:
        value = run.setting(setting.name)
        return value if isinstance(value, list) else _known(value)

    def check(word: str) -> None:
        if setting.metadata["folder"]:
            registry.check(setting.metadata["folder"], word)
        elif (known := choices(setting)) and word not in known:
            near = did_you_mean(word, known)
            raise UnknownName(f"unknown {setting.name} {word!r}{near} (known: {', '.join(known)})")

    return Key(setting.name, kind, of, check)


@cache
def _option_keys() -> dict[str, Key]:
    """The options of all sync methods, as keys by name. This reads the methods' sources."""
    methods = registry.names("sync")
    names = {one.name for method in methods for one in options.declared(method)}
    return {name: _option_key(name) for name in names}


def _option_key(name: str) -> Key:
    """An option of sync methods; runs whose method has none of this name have no value."""
    declared = {
        method: one.default
        for method in registry.names("sync")
        for one in options.declared(method)
        if one.name == name
    }
    is_number = all(type(default) in (int, float) for default in declared.values())

    def of(run: Entry) -> Sequence[Any]:
        method = run.setting("sync")
        if method not in declared:
            return []
        given = dict(word.partition("=")[::2] for word in run.setting("sync_option"))
        text = given.get(name, options.write(declared[method]))
        if not is_number:
            return [text]
        with suppress(ValueError):
            return [float(text)]
        return []

    return Key(name, NUMBER if is_number else TEXT, of)
