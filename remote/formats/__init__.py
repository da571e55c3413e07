"""Read steps and metrics out of what training programs print: about seventy formats, which are data
in `known/`, each with samples of its lines. Pure: text in, readings out."""

from remote.formats.reader import LogReader
from remote.formats.reading import Reading, ReadingKind
from remote.formats.rules import Rule

__all__ = ["LogReader", "Reading", "ReadingKind", "Rule"]
