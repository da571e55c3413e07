"""Parse the words behind a command, and gather all mistakes in them.

The parser stops at the first mistake, with words of its own. So what is wrong is taken out, and the
rest is parsed again.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cyclopts import (
    App,
    Argument,
    ArgumentCollection,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnusedCliTokensError,
)
from cyclopts.validators import Number

from training.mistake import WRITE_NUMBER, Mistake
from training.options import join_words
from training.registry import did_you_mean
from tui.kit.exit import UsageError

EXAMPLES = {"SECONDS": "60", "PERCENT": "5"}
"""A number that fits, by what the help calls the value of a flag."""
RENAMED = {"--nodes": "--num-hosts", "--min-nodes": "--min-hosts"}
"""Flags of earlier versions, which still work."""


@dataclass(frozen=True)
class ParsedCommand:
    """A command and its arguments, as far as they are right."""

    function: Callable[..., None]
    bound: inspect.BoundArguments
    extras: tuple[str, ...]
    """Names of parameters that no word sets; the command line passes them."""
    mistakes: list[Mistake] = field(default_factory=list)

    def call(self, extras: dict[str, Any]) -> None:
        """Call the command with those of `extras` that it takes."""
        given_extras = {name: extras[name] for name in self.extras}
        self.function(*self.bound.args, **self.bound.kwargs, **given_extras)


class MissingParameter(UsageError):
    """A parameter that has to be given is missing, so the command cannot be called."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)), mistakes)


class CommandApp(App):
    """A command whose arguments are made once, as that takes a while.

    The parser writes into arguments what it has read, so it gets copies.
    """

    _unparsed: ArgumentCollection | None = None

    def look_at_arguments(self) -> ArgumentCollection:
        """Return the arguments, into which nothing is to be written."""
        if self._unparsed is None:
            self._unparsed = super().assemble_argument_collection()
        return self._unparsed

    def assemble_argument_collection(
        self, *, default_parameter: Parameter | None = None, parse_docstring: bool = False
    ) -> ArgumentCollection:
        """Return arguments for the parser, or for the help."""
        if default_parameter or parse_docstring:
            return super().assemble_argument_collection(
                default_parameter=default_parameter, parse_docstring=parse_docstring
            )
        return _copy_arguments(self.look_at_arguments())


def _copy_arguments(arguments: ArgumentCollection) -> ArgumentCollection:
    """Return arguments of their own for one parse."""
    copies = arguments.copy(reset_tokens=True)
    copy_by_id = {
        id(argument): argument_copy
        for argument, argument_copy in zip(arguments, copies, strict=True)
    }
    # The copies still have the first arguments as the parts of their dataclasses.
    for argument_copy in copies:
        children = argument_copy.children.copy()
        children[:] = [copy_by_id[id(child)] for child in children]
        argument_copy.children = children
    return copies


class Flags:
    """The flags and the positional parameters of a command."""

    def __init__(self, app: CommandApp, command: str) -> None:
        """`command` is what the user writes, such as `rankboard lab up`."""
        self.see_help = f"see {command} --help"
        self._app = app

    @cached_property
    def _arguments(self) -> dict[str, Argument]:
        """The arguments by their names."""
        arguments: dict[str, Argument] = {}
        for argument in self._app.look_at_arguments():
            if argument.parse:
                arguments |= dict.fromkeys(argument.names, argument)
        arguments.pop("*", None)
        return arguments

    @property
    def names(self) -> list[str]:
        """All flags, and the names of positional parameters."""
        return [*self._arguments]

    def find(self, word: str) -> Argument | None:
        """Return the argument that a word such as `--steps=3` or `-v` names."""
        flag_name = word.partition("=")[0]
        argument = self._arguments.get(flag_name)
        is_short = len(word) > 1 and word[1] != "-"
        if argument is None and is_short:
            return self._arguments.get(word[:2])  # several letters, or a letter with its value
        return argument

    def split(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Split words at the first one that is no flag and no value of a flag."""
        word_index = 0
        while word_index < len(words) and _is_flag(words[word_index]):
            argument = self.find(words[word_index])
            # The word behind a flag that does not exist may be its value.
            takes_value = argument is None or _takes_value(argument)
            is_whole = "=" in words[word_index]
            word_index += 1
            has_word = word_index < len(words) and not _is_flag(words[word_index])
            if takes_value and not is_whole and has_word:
                word_index += 1
        return list(words[:word_index]), list(words[word_index:])


def parse(app: CommandApp, words: Sequence[str], flags: Flags) -> ParsedCommand:
    """Parse the words behind a command, whose parameters are `flags`. Raises: MissingParameter."""
    mistakes: list[Mistake] = []
    remaining = _take_out_unknown(words, flags, mistakes)
    while True:
        try:
            function, bound, extras = app.parse_args(
                remaining, exit_on_error=False, print_error=False
            )
        except UnusedCliTokensError as error:
            for unused_word in error.unused_tokens or ():
                problem = "one argument too many"
                mistakes.append(Mistake(unused_word, problem=problem, hint=flags.see_help))
                remaining.remove(unused_word)
        except CycloptsError as error:
            remaining = _take_out(error, remaining, flags, mistakes)
        else:
            return ParsedCommand(function, bound, tuple(extras), mistakes)


def _take_out_unknown(words: Sequence[str], flags: Flags, mistakes: list[Mistake]) -> list[str]:
    """Return the words without flags that do not exist; note these."""
    known_words: list[str] = []
    remaining_words = [_rename(word) for word in words]
    while remaining_words:
        word = remaining_words.pop(0)
        if word == "--":
            return [*known_words, word, *remaining_words]
        if not _is_flag(word) or flags.find(word):
            known_words.append(word)
            continue
        flag_name = word.partition("=")[0]
        # To a single letter, every other one would be near.
        nearest_text = did_you_mean(flag_name, flags.names) if flag_name.startswith("--") else ""
        hint = nearest_text or f": {flags.see_help}"
        mistakes.append(Mistake(flag_name, problem=f"there is no such option{hint}"))
        if "=" not in word and remaining_words and not _is_flag(remaining_words[0]):
            remaining_words.pop(0)  # it may be the value of the flag
    return known_words


def _rename(word: str) -> str:
    """Return the word with the present name of a flag."""
    name, equals, value = word.partition("=")
    return RENAMED.get(name, name) + equals + value


def _take_out(
    error: CycloptsError, words: list[str], flags: Flags, mistakes: list[Mistake]
) -> list[str]:
    """Return the words without a flag that the parser refuses; note the mistake.

    Raises: MissingParameter.
    """
    argument: Argument | None = getattr(error, "argument", None)
    word_places = _find_places(words, argument, flags) if argument else []
    if argument is None or not word_places:
        if not mistakes:  # it may be missing for their sake
            mistakes.append(_describe_missing(error, argument, flags))
        raise MissingParameter(mistakes)
    word_index = word_places[-1]
    if isinstance(error, MissingArgumentError):
        flag_name = argument.names[0]
        mistakes.append(Mistake(flag_name, problem="its value is missing", hint=advise(argument)))
    else:
        value = argument.tokens[-1].value if argument.tokens else ""
        # Of a flag that is given several times, the place counts at which the refused value stands.
        having_value = [
            place for place in word_places if value and value in words[place : place + 2]
        ]
        word_index = (having_value or word_places[:1])[-1]
        mistakes.append(_describe_value(argument, value))
    end_index = word_index + 1
    is_whole = "=" in words[word_index]
    has_word = end_index < len(words) and not _is_flag(words[end_index])
    if has_word and not is_whole and _takes_value(argument):
        end_index += 1
    return [*words[:word_index], *words[end_index:]]


def _find_places(words: Sequence[str], argument: Argument, flags: Flags) -> list[int]:
    """Return the indices of the words that name this argument."""
    places = []
    for place, word in enumerate(words):
        if word == "--":
            break
        named_argument = flags.find(word) if _is_flag(word) else None
        if named_argument is not None and named_argument.names == argument.names:
            places.append(place)
    return places


def _describe_missing(error: CycloptsError, argument: Argument | None, flags: Flags) -> Mistake:
    if argument is None:
        return Mistake(problem=str(error).rstrip("."), hint=flags.see_help)
    parameter_name = argument.names[0]
    hint = advise(argument) if _is_flag(parameter_name) else flags.see_help
    return Mistake(problem=f"{parameter_name} is missing", hint=hint)


def _describe_value(argument: Argument, value: str) -> Mistake:
    """Describe a value that does not fit its flag."""
    if not _takes_value(argument):
        hint = f"write {join_words(argument.names)} alone"
        return Mistake(argument.names[0], problem="it takes no value", hint=hint)
    return Mistake(argument.names[0], value, hint=advise(argument, value))


def advise(argument: Argument, text: str = "") -> str:
    """Say what to write for a flag, in place of this text."""
    # Forced, because the help of cyclopts is told not to show choices.
    choices = argument.get_choices(force=True)
    if choices:
        nearest_text = did_you_mean(text, choices) if text else ""
        return f"write {join_words(choices)}{nearest_text}"
    metavar = argument.parameter.metavar or "VALUE"
    value_type = _find_type(argument.hint)
    if value_type not in WRITE_NUMBER:
        return f"write {argument.names[0]} {metavar}"
    hint = WRITE_NUMBER[value_type]
    if metavar in EXAMPLES:
        hint = f"write a number of {metavar.lower()}, such as {EXAMPLES[metavar]}"
    validators: Any = argument.parameter.validator
    for validator in validators:
        if isinstance(validator, Number) and validator.lte is not None:
            return f"{hint}, from {validator.gte} to {validator.lte}"
        if isinstance(validator, Number):
            return f"{hint}, {validator.gte} or more"
    return hint


def _takes_value(argument: Argument) -> bool:
    return _find_type(argument.hint) is not bool


def _find_type(hint: Any) -> Any:
    """Return the type of a value, which may be optional."""
    return next((kind for kind in typing.get_args(hint) if kind is not types.NoneType), hint)


def _is_flag(word: str) -> bool:
    """Return whether a word is a flag, not a value such as -3."""
    if not word.startswith("-") or word in ("-", "--"):
        return False
    digits = word[1:].replace(".", "", 1)
    return not digits.isdigit()
