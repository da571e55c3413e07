"""What is printed for programs and pipes: texts until nobody reads them, and JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from remote.record.summary import to_strict_json
from remote.sanitise import UNSEEN
from training.wire.jsonl import dumps


class Output:
    """Texts for stdout. Once nobody reads them, as with `| head`, `gone` is true, and nothing more
    is written."""

    def __init__(self, stream: TextIO) -> None:
        self.gone = False
        self._stream = stream

    def write(self, texts: Iterable[str]) -> None:
        """Write these texts, each as it comes, then flush."""
        if self.gone:
            return
        try:
            self._stream.writelines(texts)
            self._stream.flush()
        except OSError:  # a reader that went away, a full disk, a terminal that is gone
            self.leave()

    def leave(self) -> None:
        """Stop writing: nobody reads."""
        self.gone = True
        if self._stream is sys.stdout:
            discard(self._stream)


def discard(stream: TextIO) -> None:
    """Send what is left in the buffer of a stream that nobody reads to /dev/null."""
    null_descriptor = os.open(os.devnull, os.O_WRONLY)
    # Python flushes stdout at exit, which would fail and print a traceback.
    os.dup2(null_descriptor, stream.fileno())
    os.close(null_descriptor)


def json_line(item: dict[str, Any]) -> str:
    """Return an object as a line of strict JSON: a number that is not finite is null.

    Characters that a terminal would act on are escaped.
    """
    return escape_unseen(dumps(to_strict_json(item))) + "\n"


def escape_unseen(json_text: str) -> str:
    """Escape the characters that a terminal would act on."""
    # Most lines have nothing to escape, and need no search for it.
    if json_text.isascii() and "\x7f" not in json_text:
        return json_text
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)
