"""How a run has ended, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankboard.errors import RankboardError


@dataclass(frozen=True)
class Cause:
    """Why a run has failed."""

    text: str
    """All of it in a line, such as "node2, rank 1: killed by SIGKILL at step 12"."""
    what: str
    """What happened, without the host and the rank."""
    host: str
    """The name of the host; "" if none is to blame."""
    rank: int | None
    """None if no rank is to blame."""
    last_lines: tuple[str, ...] = field(repr=False)
    """The last lines that the rank printed."""


@dataclass(frozen=True)
class Outcome:
    """How a run has ended. Accuracies are fractions; what is not known is None."""

    run: str
    verdict: str | None
    """`finished`, `failed`, `refused`, `stopped` or `lost`; None if nobody here saw its end."""
    exit_code: int | None
    """That of `rankboard --run`: 0 if all ranks have ended well."""
    cause: Cause | None
    elapsed: float
    """Seconds from the start to the end."""
    training_loss: float | None
    """The mean over all ranks and the last 20 steps."""
    test_accuracy: float | None
    """Of the last test."""
    flaws: tuple[str, ...]
    """Why a finished run is no success, such as "diverged at step 12: …"."""
    unconfirmed: tuple[str, ...]
    """Hosts on which ranks may still run."""
    summary: Mapping[str, Any] = field(repr=False)
    """All that is in `summary.json`, see docs/reference/run-folder.md."""

    @property
    def is_finished(self) -> bool:
        """Return True if all ranks have ended well."""
        return self.verdict == "finished"

    def check(self) -> Outcome:
        """Return this outcome of a finished run. Raises: RunFailedError, of any other."""
        if not self.is_finished:
            raise RunFailedError(self)
        return self


class RunFailedError(RankboardError):
    """A run did not finish, and `Outcome.check` was called."""

    def __init__(self, outcome: Outcome) -> None:
        cause = f": {outcome.cause.text}" if outcome.cause else ""
        super().__init__(f"{outcome.run}: {outcome.verdict or 'has not ended'}{cause}")
        self.outcome = outcome


def read_outcome(summary: Mapping[str, Any]) -> Outcome:
    """Read the outcome from the summary of a run."""
    test = summary["test"] or {}
    flaws = summary.get("flaws", ())
    return Outcome(
        run=summary["run"],
        verdict=summary["verdict"],
        exit_code=summary["exit_code"],
        cause=_read_cause(summary["cause"]) if summary["cause"] else None,
        elapsed=summary["elapsed"],
        training_loss=summary["training_loss"],
        test_accuracy=test.get("accuracy"),
        flaws=tuple(make_printable(flaw["text"]) for flaw in flaws),
        unconfirmed=tuple(summary["unconfirmed"]),
        summary=summary,
    )


def _read_cause(cause: Mapping[str, Any]) -> Cause:
    rank = cause["rank"]
    return Cause(
        text=make_printable(cause["text"]),
        what=make_printable(cause["what"]),
        host=cause["host"],
        rank=rank if rank >= 0 else None,
        last_lines=tuple(map(make_printable, cause["tail"])),
    )


def make_printable(text: str) -> str:
    """Return a text in which what a terminal would act on is escaped: it may be a host's."""
    signs: list[str] = []
    for sign in text:
        is_harmless = sign.isprintable() or sign in "\n\t"
        signs.append(sign if is_harmless else sign.encode("unicode_escape").decode())
    return "".join(signs)
