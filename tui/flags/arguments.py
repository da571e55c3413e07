"""Reads the arguments of a command, and gathers all mistakes in them: the parser alone stops at the
first, with words of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperOption

from training.mistake import WRITE_NUMBER, Mistake
from training.options import join
from training.registry import did_you_mean

KEY = "rankboard.mistakes"
"""What `meta` of a context calls the mistakes in the arguments of its command."""
EXAMPLES = {"SECONDS": "60", "PERCENT": "5"}
"""A number that fits, by what the help calls the value of an option."""


class Parser:
    """A parser of arguments that takes out what is wrong, so that the rest can be read.

    The mistakes are in `context.meta[KEY]`. All else is as the wrapped parser has it.
    """

    def __init__(self, wrapped: Any, context: typer.Context) -> None:
        self._wrapped = wrapped
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def parse_args(self, args: list[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        """Return the values of the options that are right, by name; what follows the options; and
        the options in order."""
        mistakes: list[Mistake] = []
        self._context.meta[KEY] = mistakes
        words = list(args)
        while True:
            try:
                values, rest, order = self._wrapped.parse_args([*words])
                break
            except typer.TyperException as error:
                word = getattr(error, "option_name", None)
                if word is None:
                    raise
                mistakes.append(self._find_mistake(word, error))
                words = _without(words, word)
        for option in self._options():
            if option.name in values:
                self._check(option, values, mistakes)
        if rest and not self._context.allow_extra_args:
            hint = f"see {self._context.command_path} --help"
            mistakes += [Mistake(word, problem="one argument too many", hint=hint) for word in rest]
            rest = []
        return values, rest, order

    def _options(self) -> list[TyperOption]:
        params = self._context.command.get_params(self._context)
        return [one for one in params if isinstance(one, TyperOption)]

    def _find_mistake(self, word: str, error: typer.TyperException) -> Mistake:
        """Return the mistake in an option that the parser refuses, whatever its value."""
        options = {name: one for one in self._options() for name in _names(one)}
        if word not in options:
            near = did_you_mean(word, options) if word.startswith("--") else ""
            see = f"see {self._context.command_path} --help"
            return Mistake(word, problem=f"there is no such option{near or f': {see}'}")
        option = options[word]
        if option.is_flag:
            both = join(_names(option))
            return Mistake(word, problem="it takes no value", hint=f"write {both} alone")
        hint = advise(option)
        return Mistake(word, problem="its value is missing", hint=hint)

    def _check(self, option: TyperOption, values: dict[str, Any], mistakes: list[Mistake]) -> None:
        """Take the value of an option out where it is wrong."""
        value = values[option.name]
        flag = _names(option)[0]
        texts = value if isinstance(value, list | tuple) else [value]
        known = {name for one in self._options() for name in _names(one)}
        for text in texts:
            if text in known:  # a flag was taken for the value
                hint = advise(option)
                mistakes.append(Mistake(flag, problem="its value is missing", hint=hint))
            elif not self._is_valid(option, [text] if option.multiple else text):
                hint = advise(option, str(text))
                mistakes.append(Mistake(flag, str(text), hint=hint))
            else:
                continue
            values.pop(option.name, None)

    def _is_valid(self, option: TyperOption, value: Any) -> bool:
        if option.is_flag:
            return True
        try:
            option.get_runtime_param().coerce(value, param=option, ctx=self._context)
        except typer.BadParameter:
            return False
        return True


def advise(option: TyperOption, text: str = "") -> str:
    """Say what to write for an option, in place of this text."""
    descriptor = option.type_descriptor
    if descriptor.choices:
        known = [str(getattr(one, "value", one)) for one in descriptor.choices]
        return f"write {join(known)}{did_you_mean(text, known) if text else ''}"
    metavar = option.metavar or ""
    kind = descriptor.annotation
    if kind not in WRITE_NUMBER:
        return f"write {_names(option)[0]} {metavar or 'VALUE'}"
    hint = WRITE_NUMBER[kind]
    example = EXAMPLES.get(metavar)
    if example:
        hint = f"write a number of {metavar.lower()}, such as {example}"
    least = descriptor.parameter_info.min
    most = descriptor.parameter_info.max
    if least is not None and most is not None:
        return f"{hint}, from {least} to {most}"
    if least is not None:
        return f"{hint}, {least} or more"
    return hint


def find_missing(error: typer.TyperException, program: str) -> Mistake:
    """Return the mistake where the parser says that something is missing."""
    param = getattr(error, "param", None)
    if isinstance(param, TyperOption):
        return Mistake(problem=f"{_names(param)[0]} is missing", hint=advise(param))
    help = f"see {program} --help"
    if param is not None:
        return Mistake(problem=f"{param.metavar or param.name.upper()} is missing", hint=help)
    return Mistake(problem=error.format_message().rstrip("."), hint=help)


def _names(option: TyperOption) -> list[str]:
    """Return all names of an option; those that turn it off come last."""
    return sorted([*option.opts, *option.secondary_opts], key=lambda name: name.startswith("--no-"))


def _without(words: Sequence[str], option: str) -> list[str]:
    """Return the words without an option, and without what may be its value."""
    at = next((at for at, word in enumerate(words) if word.partition("=")[0] == option), None)
    if at is None:  # one of several letters in a word: no more can be read
        return []
    after = at + 1
    if "=" not in words[at] and after < len(words) and not words[after].startswith("-"):
        after += 1
    return [*words[:at], *words[after:]]
