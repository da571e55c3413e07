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
    about: str = ""
    """The flag in whose field a form shows it, if the problem names flags itself."""

    @property
    def field_flag(self) -> str:
        """Return the flag in whose field a form shows this; "" if there is none."""
        return self.flag or self.about

    @property
    def without_flag(self) -> str:
        """Return the words beside the field, which shows the flag and the value itself."""
        return ": ".join(filter(None, (self.problem, self.hint)))

    def __str__(self) -> str:
        given_words = f"{self.flag} {self.value}".strip()
        return ": ".join(filter(None, (given_words, self.without_flag)))


class MistakeError(ValueError):
    """Mistakes of the user, as values; the text has a line for each."""

    def __init__(self, *mistakes: Mistake | str) -> None:
        # For those that only print it; a form shows the mistakes beside their fields.
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(
            mistake if isinstance(mistake, Mistake) else Mistake(problem=mistake)
            for mistake in mistakes
        )
