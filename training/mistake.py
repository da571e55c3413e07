"""A mistake in a setting, as a value with fields; its words are made here."""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS: dict[type, str] = {int: "a whole number", float: "a number"}
"""What a number of this type is called."""
WRITE_NUMBER: dict[type, str] = {
    int: f"write {NUMBERS[int]}",
    float: f"write {NUMBERS[float]}, such as 0.1",
}
"""What to write where a text is no number of this type."""


@dataclass(frozen=True)
class Mistake:
    """What is wrong in a command line, or in a form that stands for one."""

    flag: str = ""
    """The flag, such as `--model`; "" where several are about it, which the problem names."""
    value: str = ""
    """What was given; "" where the flag alone is wrong."""
    problem: str = ""
    """What is wrong; "" where the hint says it all."""
    hint: str = ""
    """What to write instead."""

    def __str__(self) -> str:
        given = f"{self.flag} {self.value}".strip()
        return ": ".join(filter(None, (given, self.problem, self.hint)))
