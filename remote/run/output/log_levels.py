"""Says of a line of a run's log whether it is routine, how bad it is, and whose. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum

from remote.run.output.last_words import HEADER, LINKS, RAISED
from remote.run.output.tracebacks import speaks_of_communication
from remote.run.state.types import Cause, LogLine

# Routine ------------------------------------------------------------------------------------------

_LONGEST = 400
"""Characters of the longest routine line: that of a checkpoint has a path."""
_STARTS = ("epoch ", "Rank: ", "Test Loss: ", "Checkpoint: ")
_ROUTINE = re.compile(
    r"epoch \d+ step \d+/\d+ loss \S+ acc \S+ \S+ s/iter"
    r"|epoch \d+ done: mean loss \S+ acc \S+ \S+ s/iter, \S+ s"
    r"|epoch \d+ test loss \S+ acc \S+"
    r"|Rank: \d+ Batch Idx: \d+, Batch Loss: \S+, Batch Accuracy: \S+, Batch Duration: \S+ seconds"
    r"|Rank: \d+ Epoch: \d+, Train Loss: \S+, Train Accuracy: \S+, "
    r"Avg Batch Duration: \S+ seconds, Epoch Duration: \S+ seconds"
    r"|Test Loss: \S+, Test Accuracy: \S+"
    r"|Checkpoint: step \d+, \S+ MB in \S+ seconds, .*"
)
"""The lines of `training.reports`, in each --log-format, and of checkpoints."""


def may_be_routine(text: str) -> bool:
    """Return True if any line of this text may be routine; a quick look."""
    return any(start in text for start in _STARTS)


def is_routine(line: str) -> bool:
    """Return True if rankboard's own ranks print such a line every `--log-every` steps, or of an
    epoch, a test or a checkpoint.

    Their figures are in the charts and tables, too, and those of an epoch in its line.
    """
    if not line.startswith(_STARTS) or len(line) > _LONGEST:
        return False
    return _ROUTINE.fullmatch(line) is not None


# Whose --------------------------------------------------------------------------------------------

_PREFIXED = "[rR"
"""What a prefix may begin with."""
_PREFIX = re.compile(
    r"(?:\[(?:rank ?|default)?(\d+)\]:?|rank ?[:=] ?(\d+)[:,]?|rank ?(\d+)[:,])(?: |(?=\[))",
    re.IGNORECASE,
)


def strip_rank_prefix(text: str, rank: int) -> str:
    """Return the text without a prefix that names its rank, such as "[rank1]: " or "Rank: 1 "."""
    prefix = _PREFIX.match(text) if text[:1] in _PREFIXED else None
    # Of the three groups of the pattern, the one that has matched.
    if not prefix or int(prefix[prefix.lastindex or 0]) != rank:
        return text
    return text[prefix.end() :] or text


# Level --------------------------------------------------------------------------------------------


class Level(IntEnum):
    """How bad a line is."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def title(self) -> str:
        """Return what a person calls the lines from this level on."""
        return ("all levels", "warnings", "errors")[self]


_ERROR = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL)\b|\b[Ee]rror: |\b[Ff]atal: |\b[A-Z]\w*(?:Error|Exception)\b(?::|$)"
    r"|^\[[EF]\d{4} |Segmentation fault|core dumped|[Oo]ut of memory"
)
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b[Ww]arning: |\b[A-Z]\w*Warning\b|^\[W\d{4} ")
_GRAVE = re.compile(
    r"\b(?:killed|failed|died|lost|refused|stalled|exit code [1-9]|NaN|cannot|out of memory)\b"
)
"""Words of remarks that are errors; all others are warnings."""
_CONTINUES = re.compile(rf"\s|$|frame #\d|Exception raised from |{'|'.join(map(re.escape, LINKS))}")
"""Lines that follow the last line of a traceback and belong to it."""


class LevelReader:
    """Tells the level of each line; it reads lines in order, as a traceback takes several."""

    def __init__(self) -> None:
        self._inside: dict[tuple[int, str], bool] = {}
        """Ranks and hosts within a traceback; False once the exception itself has come."""

    def read(self, line: LogLine) -> Level:
        """Return the level of the next line."""
        # Remarks are our own words, in which other words tell an error.
        if line.stream == "cause":
            return Level.ERROR
        if line.stream == "note":
            return Level.ERROR if _GRAVE.search(line.text) else Level.WARNING
        if line.routine:
            return Level.INFO
        plain_text = strip_rank_prefix(line.text, line.rank)
        line_source = (line.rank, line.host)
        if plain_text.startswith(HEADER):
            self._inside[line_source] = True
        elif line_source not in self._inside:
            return _level_of_text(plain_text)
        elif self._inside[line_source]:
            self._inside[line_source] = RAISED.match(plain_text) is None
        elif not _CONTINUES.match(plain_text):
            del self._inside[line_source]
            return _level_of_text(plain_text)
        return Level.ERROR


def _level_of_text(text: str) -> Level:
    if _ERROR.search(text):
        return Level.ERROR
    return Level.WARNING if _WARNING.search(text) else Level.INFO


def log_entries(lines: Iterable[LogLine]) -> list[list[LogLine]]:
    """Group lines that belong together: a line, or a whole traceback.

    Other ranks may print between its lines.
    """
    entries: list[list[LogLine]] = []
    open_tracebacks: dict[int, tuple[LevelReader, list[LogLine]]] = {}
    for line in lines:
        if line.rank in open_tracebacks:
            level_reader, traceback = open_tracebacks[line.rank]
            if level_reader.read(line) is Level.ERROR:
                traceback.append(line)
                continue
            del open_tracebacks[line.rank]
        entry = [line]
        entries.append(entry)
        if line.rank >= 0 and is_traceback(line):
            level_reader = LevelReader()
            level_reader.read(line)
            open_tracebacks[line.rank] = level_reader, entry
    return entries


def is_traceback(line: LogLine) -> bool:
    """Return True if a traceback begins with this line."""
    return HEADER in line.text and strip_rank_prefix(line.text, line.rank).startswith(HEADER)


def first_error(lines: Sequence[LogLine], cause: Cause | None, since: float) -> LogLine | None:
    """Return the line at which the run went wrong, if there is any.

    If its `cause` is known, that is the first error of what died first, after the time `since`;
    else the first error that is no consequence of another.
    """
    levels = LevelReader()
    errors = [line for line in lines if levels.read(line) is Level.ERROR]
    if cause and prints_lines(cause):
        lines_of_cause = (
            line for line in errors if is_printed_by(line, cause) and line.time >= since
        )
        return next(lines_of_cause, None)
    error_numbers = {line.number for line in errors}
    for entry in log_entries(lines):
        is_secondary = any(speaks_of_communication(line.text) for line in entry)
        if entry[0].number in error_numbers and not is_secondary:
            return entry[0]
    return errors[0] if errors else None


def prints_lines(cause: Cause) -> bool:
    """Return True if it was a rank or a host, which prints lines."""
    return cause.rank >= 0 or bool(cause.host)


def is_printed_by(line: LogLine, cause: Cause) -> bool:
    """Return True if what died first has printed this line."""
    return line.rank == cause.rank and (line.rank >= 0 or line.host == cause.host)
