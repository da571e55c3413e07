"""Where the numbers stand in a line, and what they tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from remote.formats.memory import Memory
from remote.formats.numbers import number
from remote.formats.reading import Reading

Tell = Callable[[dict[str, float], Memory], Reading | None]


class Field(NamedTuple):
    """A number of a line, from `begin` to `end`, and what it tells: `name` ("": nothing), in units
    of `factor`. The text from `since` on, such as its printed name, is as it is but for the spaces
    before the number. `whole`: it has digits only."""

    name: str
    factor: float
    begin: int
    end: int
    since: int
    whole: bool = False


class Found(NamedTuple):
    """The numbers of a line, in order of their names, and what makes a reading of their values."""

    fields: Sequence[Field]
    tell: Tell

    def values(self, line: str) -> dict[str, float]:
        """The values of the line. Raises: ValueError, where a number in it is none."""
        told = (field for field in self.fields if field.name)
        return {field.name: number(line[field.begin : field.end]) * field.factor for field in told}
