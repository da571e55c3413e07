"""The command `rankboard` as a child process: the words that it is given, and the JSON that it
prints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias

from rankboard.errors import CommandError, Mistake, RankboardError, RefusedError

JsonObject: TypeAlias = dict[str, Any]
FlagWord: TypeAlias = "str | int | float | PathLike[str]"
FlagValue: TypeAlias = "FlagWord | bool | Sequence[FlagWord] | Mapping[str, FlagWord] | None"
"""What a keyword may be, see `make_flags`."""
LAST_MESSAGES = 50
"""Lines for people that an error keeps of a command."""


def make_flags(values: Mapping[str, FlagValue]) -> list[str]:
    """Return the flags that these keywords stand for.

    `batch_size=64` is `--batch-size=64`. True is the flag alone, False its `--no-`, and None no
    flag at all. A sequence repeats the flag, a mapping repeats it with KEY=VALUE.
    """
    words: list[str] = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is False:
            words.append(flag.replace("--", "--no-", 1))
        elif value is not None:
            # In one word, so that a value may begin with a dash.
            words += [f"{flag}={text}" for text in _list_texts(value)]
    return words


def _list_texts(value: FlagValue) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [str(item) for item in value]
    return [str(value)]


def start(words: Sequence[str], messages: IO[Any]) -> subprocess.Popen[str]:
    """Start `rankboard` with these words; its lines for people go into a file."""
    return subprocess.Popen(
        # -P: the current folder may have a package of our name.
        [sys.executable, "-P", "-m", "rankboard", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=messages,
        encoding="utf-8",
        # Ctrl+C is for the caller: it interrupts a wait, and not the run.
        start_new_session=True,
    )


def read_messages(messages: IO[Any]) -> list[str]:
    """Return the last lines for people of a command that has ended."""
    messages.seek(0)
    lines: list[str] = messages.read().decode(errors="replace").splitlines()
    return lines[-LAST_MESSAGES:]


def read_mistake(item: JsonObject) -> Mistake:
    """Read a mistake that a command tells of."""
    return Mistake(item["flag"], item["value"], item["problem"], item["hint"])


def make_error(
    words: Sequence[str], exit_code: int, mistakes: Sequence[Mistake], messages: Sequence[str]
) -> RankboardError:
    """Make the error of a command that has ended without a result."""
    return RefusedError(mistakes) if mistakes else CommandError(words, exit_code, messages)


@dataclass(frozen=True)
class EndedCommand:
    """A command that has ended, and what it printed."""

    words: tuple[str, ...]
    exit_code: int
    objects: tuple[JsonObject, ...]
    mistakes: tuple[Mistake, ...]
    messages: tuple[str, ...]

    def get_object(self) -> JsonObject:
        """Return the last object that it printed. Raises: RefusedError; CommandError, if there is
        none."""
        if not self.objects:
            raise make_error(self.words, self.exit_code, self.mistakes, self.messages)
        return self.objects[-1]


def call(words: Sequence[str]) -> EndedCommand:
    """Run a command to its end."""
    objects: list[JsonObject] = []
    mistakes: list[Mistake] = []
    with TemporaryFile() as messages:
        process = start(words, messages)
        for item in _read_objects(process):
            if item.get("event") == "mistake":
                mistakes.append(read_mistake(item))
            else:
                objects.append(item)
        return EndedCommand(
            tuple(words),
            process.returncode,
            tuple(objects),
            tuple(mistakes),
            tuple(read_messages(messages)),
        )


def iterate(words: Sequence[str]) -> Iterator[JsonObject]:
    """Yield the objects that a command prints, as they come. Raises: RefusedError; CommandError, if
    it fails before the first one."""
    has_begun = False
    mistakes: list[Mistake] = []
    with TemporaryFile() as messages:
        process = start(words, messages)
        # Closed at once if nobody reads on, which ends the process.
        with closing(_read_objects(process)) as items:
            for item in items:
                if item["event"] == "mistake":
                    mistakes.append(read_mistake(item))
                else:
                    has_begun = True
                    yield item
        if process.returncode and not has_begun:
            raise make_error(words, process.returncode, mistakes, read_messages(messages))


def _read_objects(process: subprocess.Popen[str]) -> Generator[JsonObject]:
    """Yield the objects that a process prints; it has ended afterwards, also if nobody reads on."""
    assert process.stdout
    try:
        with process.stdout as lines:
            for line in lines:
                yield json.loads(line)
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()
