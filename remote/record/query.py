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
from typing import Any, NamedTuple

from remote.plan.variables import VARIABLE
from remote.record.entry import VERDICTS, Entry
from remote.record.figures import FIGURES, RunFigure
from remote.record.layout import QUICK
from remote.run.state.flaw import FlawKind
from training import options, registry
from training.job import SEVERAL, Job, choices_of
from training.registry import UnknownName, did_you_mean

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
EQUALS = ("=", "==")
STUDY_KEY = "study"
WORD = re.compile(r"([\w/-]+?)\s*(<=|>=|!=|==?|<|>)\s*(.*)", re.DOTALL)
MOMENT = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")
TEXT = "a text"
NUMBER = "a number"
TIME = "a date such as 2026-11-20"
FLAG = "yes or no"
"""What the values of a key are, as messages name it."""
EXAMPLE = {NUMBER: "0.5", TIME: "2026-11-20"}
"""By the kinds of values that have an order."""
TEXTS = ("name", "label", "script", "verdict", "cause", "note", "step_notes", "study", "trial")
"""Fields of a run in which a word without an operator is looked for."""
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
    word_tests = []
    mistake_texts = []
    for word in words:
        try:
            word_tests.append(_test(word))
        except (QueryError, UnknownName) as error:
            mistake_texts.append(str(error))
    if mistake_texts:
        raise QueryError("\n".join(mistake_texts))
    return lambda run: all(word_test(run) for word_test in word_tests)


class QuickNames(NamedTuple):
    """Words in which quick variants stand in place of studies that have no runs."""

    words: list[str]
    studies: dict[str, str]
    """The names of the variants, by the names of the studies."""


def name_quick_variants(words: Iterable[str], runs: Iterable[Entry]) -> QuickNames:
    """Return the words with each study that none of these runs belongs to replaced by its quick
    variant, where that has runs."""
    names = {run.study for run in runs}
    replaced: dict[str, str] = {}

    def find_name(name: str) -> str:
        quick_name = f"{name}{QUICK}"
        if name in names or quick_name not in names:
            return name
        replaced[name] = quick_name
        return quick_name

    new_words = []
    for word in words:
        word_match = WORD.fullmatch(word)
        if word_match and word_match[1] == STUDY_KEY and word_match[2] in EQUALS:
            study_names = [find_name(part.strip()) for part in word_match[3].split(",")]
            word = f"{STUDY_KEY}={','.join(study_names)}"
        new_words.append(word)
    return QuickNames(new_words, replaced)


def without_unstarted(runs: Sequence[Entry]) -> Sequence[Entry]:
    """Leave out the runs that ended without a step, such as one whose host had a typing error:
    they hide the others. Runs with a star stay, and so do all where there are no others."""
    started = [run for run in runs if run.star or not run.made_no_step]
    return started or runs


def sort_runs(runs: Iterable[Entry], key_name: str, reverse: bool = False) -> list[Entry]:
    """Sort runs by a key, the least first; those of which it is not known come last. Raises:
    QueryError."""
    key = _find_key(key_name, f"--sort {key_name}")
    runs_with_value = list[Entry]()
    runs_without = list[Entry]()
    for run in runs:
        has_value = len(key.get_values(run)) > 0
        (runs_with_value if has_value else runs_without).append(run)
    runs_with_value.sort(key=lambda run: list(key.get_values(run)), reverse=reverse)
    return runs_with_value + runs_without


# Words --------------------------------------------------------------------------------------------


def _test(word: str) -> Test:
    """Return the test that one word stands for. Raises: QueryError, UnknownName."""
    word_match = WORD.fullmatch(word)
    if not word_match:
        return _bare(word)
    key_name, operator_sign, value_text = word_match.groups()
    key = _find_key(key_name, word)
    if operator_sign in COMPARE:
        if key.kind not in EXAMPLE:
            raise QueryError(f"{word}: {key.name} is {key.kind}: compare it with = or !=")
        return _comparison(key, COMPARE[operator_sign], value_text, word)
    alternatives = [_equality(key, part.strip(), word) for part in value_text.split(",")]
    is_negated = operator_sign == "!="
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
    lowered_word = word.casefold()
    return lambda run: any(lowered_word in text.casefold() for text in _texts(run))


def _texts(run: Entry) -> Iterable[str]:
    yield from (getattr(run, field_name) for field_name in TEXTS)
    yield from run.hosts
    if run.job is not None:
        yield from map(run.setting, ("sync", "model", "dataset"))
        yield from run.setting("sync_option")


def _comparison(
    key: QueryKey, compare: Callable[[Any, Any], bool], value_text: str, word: str
) -> Test:
    if key.kind is NUMBER:
        number = _parse_number(value_text, word)
        return lambda run: any(compare(value, number) for value in key.get_values(run))
    moment_text = _parse_moment(value_text, word)
    moment_length = len(moment_text)  # a moment may be a mere year
    return lambda run: any(
        compare(value[:moment_length], moment_text) for value in key.get_values(run)
    )


def _equality(key: QueryKey, value_text: str, word: str) -> Test:
    """Return the test that a value of the key is this. Raises: QueryError, UnknownName."""
    # `note=` asks for runs without a note.
    if not value_text:
        return lambda run: not key.get_values(run)
    if key.kind is NUMBER:
        number = _parse_number(value_text, word)
        return lambda run: number in key.get_values(run)
    pattern = value_text
    if key.kind is TIME:
        pattern = f"{_parse_moment(value_text, word)}*"
    elif key.kind is FLAG and value_text not in ("yes", "no"):
        raise QueryError(f"{word}: write {key.name}=yes or {key.name}=no")
    # With a wildcard, a text may mean names that are not known here.
    elif key.check and not re.search(r"[*?[]", value_text):
        key.check(value_text)
    return lambda run: any(fnmatchcase(value, pattern) for value in key.get_values(run))


def _parse_number(value_text: str, word: str) -> float:
    """Return the number of a text such as 0.5 or 60%. Raises: QueryError."""
    with suppress(ValueError):
        return float(value_text[:-1]) / 100 if value_text.endswith("%") else float(value_text)
    raise QueryError(f"{word}: {value_text or 'nothing'} is not a number")


def _parse_moment(value_text: str, word: str) -> str:
    if not MOMENT.fullmatch(value_text):
        raise QueryError(f"{word}: write {TIME} or 2026-11-20T09:30")
    return value_text.replace("T", " ")


# Keys ---------------------------------------------------------------------------------------------


def _find_key(key_name: str, word: str) -> QueryKey:
    """Return the key of a name. Raises: QueryError."""
    field_name = key_name.replace("-", "_")
    key = _keys().get(field_name) or _option_keys().get(field_name)
    if not key and key_name.isupper():
        return QueryKey(key_name, TEXT, partial(_values_of_variable, key_name))
    if not key:
        suggestion = did_you_mean(field_name, {**_option_keys(), **_keys()})
        raise QueryError(
            f"{word}: runs have no {key_name!r}{suggestion or ' (rankboard runs --help)'}"
        )
    return key


def _values_of_variable(name: str, run: Entry) -> Sequence[str]:
    value_text = run.variables.get(VARIABLE + name)
    return value_text.split(", ") if value_text else ()


@cache
def _keys() -> dict[str, QueryKey]:
    """Return the keys by name, without options: settings of jobs, and what became of a run."""
    keys = {setting.name: _job_key(setting) for setting in fields(Job)}
    text_fields = {"run": "name", "name": "label"} | {
        name: name for name in ("script", "cause", "note", "study", "trial")
    }
    keys |= {name: _field_key(name, TEXT, field_name) for name, field_name in text_fields.items()}
    keys |= {figure.field: _figure_key(figure) for figure in FIGURES}
    keys |= {name: _field_key(name, FLAG, name) for name in ("star", "pinned", "diverged")}
    check_flaw = partial(_check_known, "flaw", [kind.value for kind in FlawKind])
    check_verdict = partial(_check_known, "verdict", VERDICTS)
    other_keys = (
        QueryKey("host", TEXT, lambda run: run.hosts),
        QueryKey("flaw", TEXT, lambda run: [flaw.kind.value for flaw in run.flaws], check_flaw),
        QueryKey("nodes", NUMBER, lambda run: [len(run.hosts)] if run.hosts else []),
        QueryKey("ranks", NUMBER, lambda run: [run.ranks]),
        QueryKey("verdict", TEXT, lambda run: [run.verdict], check_verdict),
    )
    keys |= {key.name: key for key in other_keys}
    keys |= {figure.title: keys[figure.field] for figure in FIGURES if figure.title}
    # Older versions called the column so.
    return keys | {"method": keys["sync"], "s/iter": keys["step_seconds"]}


def _field_key(key_name: str, value_kind: str, field_name: str) -> QueryKey:
    return QueryKey(key_name, value_kind, lambda run: _known(getattr(run, field_name)))


def _figure_key(figure: RunFigure) -> QueryKey:
    if figure.is_time:
        return QueryKey(figure.field, TIME, lambda run: _local(getattr(run, figure.field)))
    return _field_key(figure.field, NUMBER, figure.field)


def _known(value: Any) -> Sequence[Any]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, list):
        return value
    return [] if value in (None, "") else [value]


def _local(unix_time: float | None) -> list[str]:
    """Return a Unix time as local date and time, if it is one."""
    with suppress(OverflowError, ValueError, OSError):
        return [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_time))] if unix_time else []
    return []


def _check_known(value_name: str, known_words: Sequence[str], word: str) -> None:
    """Raises: UnknownName, for a word that is not known."""
    if word not in known_words:
        suggestion = did_you_mean(word, known_words)
        raise UnknownName(
            f"unknown {value_name} {word!r}{suggestion} (known: {', '.join(known_words)})"
        )


def _job_key(setting: Any) -> QueryKey:
    setting_name = setting.name
    value_kind = {"bool": FLAG, "str": TEXT, SEVERAL: TEXT}.get(str(setting.type), NUMBER)

    def check(word: str) -> None:
        choices_folder = setting.metadata["folder"]
        known_choices = choices_of(setting)
        if choices_folder:
            registry.split_name(choices_folder, word)
        elif known_choices:
            _check_known(setting_name, known_choices, word)

    return QueryKey(setting_name, value_kind, lambda run: _known(run.setting(setting_name)), check)


@cache
def _option_keys() -> dict[str, QueryKey]:
    """Return the options of all sync methods, as keys by name. This reads the methods' sources."""
    defaults: dict[str, dict[str, Any]] = {}
    for method in registry.list_names("sync"):
        for option in options.declared_options(method):
            defaults.setdefault(option.name, {})[method] = option.default
    return {
        option_name: _option_key(option_name, method_defaults)
        for option_name, method_defaults in defaults.items()
    }


def _option_key(option_name: str, method_defaults: Mapping[str, Any]) -> QueryKey:
    """Return the key of an option with these defaults by sync method; runs whose sync method has no
    such option have no value."""
    is_number = all(type(default) in (int, float) for default in method_defaults.values())

    def get_values(run: Entry) -> Sequence[Any]:
        method = run.setting("sync")
        if method not in method_defaults:
            return []
        given_options = dict(word.partition("=")[::2] for word in run.setting("sync_option"))
        option_text = given_options.get(option_name, options.format_value(method_defaults[method]))
        if not is_number:
            return [option_text]
        with suppress(ValueError):
            return [float(option_text)]
        return []

    return QueryKey(option_name, NUMBER if is_number else TEXT, get_values)
