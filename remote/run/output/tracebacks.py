"""The exception that ended a program, as its last lines tell it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from remote.run.output.last_words import HEADER, LINKS, PREFIX, RAISED, find_chain

_COMMUNICATION = re.compile(
    r"closed by (?:remote )?peer|reset by peer|connection (?:was "
    r")?(?:closed|reset|refused|aborted|timed out)|timed? ?out"
    r"|broken pipe|\bNCCL\b|ncclSystemError|ncclRemoteError|ncclInternalError"
    r"|Dist(?:Network|Store|Backend)Error"
    r"|gloo[/\\]transport|\bgloo::|Gloo connectFullMesh "
    r"failed|ProcessGroup(?:Gloo|NCCL)|socketPo?ll|TCPStore"
    r"|BrokenPipeError|Connection(?:Reset|Refused|Aborted)Error|no route to host|network is "
    r"unreachable",
    re.IGNORECASE,
)
_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$")
_WARNING = re.compile(r"^\[[IW]\d{4} ")
_MESSAGE_LINES = 4
"""Lines of an exception's message that are read; torch adds stacks of C++ below."""
_PROGRAMS = re.compile(
    r"(?:Arithmetic|Assertion|Attribute|FileNotFound|Import|Index|Key|Memory|ModuleNotFound|Name|NotImplemented|Permission"
    r"|Syntax|Type|Value|ZeroDivision)Error"
)
"""Exceptions that communication does not raise, whatever their messages speak of (`timeout` is a
popular argument)."""
_WIDTH = 300
"""Characters of a message that a cause quotes."""


class Thrown(Struct, frozen=True):
    """The exception that ended a program."""

    type: str
    text: str
    """What to show of it."""
    broken: bool
    """It came of broken communication."""


def errors_of(tail: Sequence[str]) -> str:
    """Return the lines but for torch's warnings.

    These speak of process groups and time outs even if all is well.
    """
    lines = (PREFIX.sub("", line) for line in tail)
    return "\n".join(line for line in lines if not _WARNING.match(line))


def speaks_of_communication(text: str) -> bool:
    """Return True if the text is that of an error of which a rank dies when another is gone."""
    return _COMMUNICATION.search(text) is not None


def find_exception(tail: Sequence[str]) -> Thrown | None:
    """Return the exception of the last traceback in these lines, or None.

    Of a chain the first link decides whether communication broke: the program made the others of
    it.
    """
    lines = [PREFIX.sub("", line) for line in tail]
    exceptions = _find_exceptions(lines)
    if not exceptions:
        return None
    root_error = exceptions[0]
    last_error = exceptions[-1]
    is_broken = _is_broken(root_error)
    error_text = _first_line(root_error)
    # An error of communication that follows another one says nothing more.
    is_root_enough = len(exceptions) == 1 or (_is_broken(last_error) and not is_broken)
    if not is_root_enough:
        error_text = f"{_first_line(last_error)} (after {error_text})"
    return Thrown(_exception_type(last_error), error_text, is_broken)


def _exception_type(thrown: str) -> str:
    return thrown.split("\n", 1)[0].split(":", 1)[0]


def _is_broken(thrown: str) -> bool:
    return not _PROGRAMS.fullmatch(_exception_type(thrown)) and speaks_of_communication(thrown)


def _find_exceptions(lines: Sequence[str]) -> list[str]:
    """Return the exceptions of the last chain of tracebacks, in order, with some lines of each."""
    chain: list[str] = []
    is_inside = False
    # What stands before the last chain was caught by the program, and is not what ended it.
    for line_number in range(find_chain(lines) or 0, len(lines)):
        if lines[line_number].strip() == HEADER:
            is_inside = True
        elif is_inside and RAISED.match(lines[line_number]):
            chain.append(_read_message(lines, line_number))
            is_inside = False
    if chain:
        return chain
    # Of a syntax error, or a traceback whose head is out of sight, only the last line is there.
    error_lines = (line_number for line_number, line in enumerate(lines) if _ERROR.match(line))
    return [_read_message(lines, line_number) for line_number in islice(error_lines, 1)]


def _read_message(lines: Sequence[str], start_line: int) -> str:
    end_line = start_line + 1
    while end_line < min(len(lines), start_line + _MESSAGE_LINES) and not _ends_message(
        lines[end_line]
    ):
        end_line += 1
    return "\n".join(lines[start_line:end_line])


def _ends_message(line: str) -> bool:
    stripped_line = line.strip()
    begins_traceback = stripped_line in (HEADER, *LINKS)
    return not stripped_line or begins_traceback or _WARNING.match(line) is not None


def _first_line(text: str) -> str:
    first_line = text.split("\n", 1)[0].strip()
    return first_line if len(first_line) <= _WIDTH else first_line[: _WIDTH - 1] + "…"
