"""The inks of the dashboard, each for one meaning; the report takes those of phases from here.

States, keys, phases and test values have an ink of their own, which nothing else is drawn in. What
is drawn once has the plain ink, and only ranks, hosts or runs beside each other have inks of a
series. A sign or a word always says the same as an ink: inks only make it quick to find.
"""

from __future__ import annotations

from msgspec import Struct

LINE, TEST, DATA, COMPUTE, SYNC, REFERENCE = range(900, 906)
"""Numbers of inks beyond those of series, for curves: the plain one, test values, phases, and what
the values are held against, which has the plain ink and a dashed line."""
PHASE_INKS = {"data": DATA, "compute": COMPUTE, "sync": SYNC}
"""The inks of the phases of a step, by their names."""
MUTED = "$foreground-muted"
"""The style of what matters less, within a text. `$text-muted` is for style sheets: in a text it is
white."""
SERIES_INKS = 8
"""Inks of series. A ninth rank has the first one's again, and a dashed line."""


class Inks(Struct, frozen=True):
    """The inks for one ground. Each can be read on it: the contrast is 4.5:1 or more."""

    good: str
    warn: str
    bad: str
    """The three states, for nothing else."""
    key: str
    """Keys, and what has the focus."""
    rule: str
    """Rules and borders without the focus."""
    line: str
    """What is drawn once, such as the mean over all ranks."""
    test: str
    """Values of the test set."""
    data: str
    compute: str
    sync: str
    """The three phases of a step."""
    series: tuple[str, ...]
    """Ranks, hosts or runs that are drawn beside each other, by their numbers."""

    def by_number(self, number: int) -> str:
        """Return the ink of a curve: that of a series by its number, or one of the constants."""
        if number >= LINE:
            inks = (self.line, self.test, self.data, self.compute, self.sync, self.line)
            return inks[number - LINE]
        return self.series[number % len(self.series)]

    def variables(self) -> dict[str, str]:
        """Return the names under which style sheets find the inks that Textual has no name for."""
        names = ("rule", "test", *PHASE_INKS)
        return {f"ink-{name}": getattr(self, name) for name in names}


def is_dashed(number: int) -> bool:
    """Return True if the curve of that number shares its ink with another, and is dashed."""
    if number == REFERENCE:
        return True
    return number < LINE and bool(number // SERIES_INKS % 2)


# Chosen so that people with any kind of colour blindness tell states, phases and series apart.
DARK = Inks(
    good="#52D8A2",
    warn="#EDB431",
    bad="#F85F56",
    key="#5CB8FF",
    rule="#6E7780",
    line="#E4E6E8",
    test="#F074C4",
    data="#EAD9A8",
    compute="#2FA59B",
    sync="#B08CFA",
    series=(
        "#6291F7",
        "#ECE95C",
        "#61FDF7",
        "#CF72A3",
        "#AEC942",
        "#E4A9AF",
        "#86CDFF",
        "#9D9B29",
    ),
)
LIGHT = Inks(
    good="#006E50",
    warn="#8A5C00",
    bad="#94101F",
    key="#0060A8",
    rule="#7D858C",
    line="#1B1E21",
    test="#A3207F",
    data="#7A5F4E",
    compute="#006B82",
    sync="#5A1FA8",
    series=(
        "#5157CE",
        "#525001",
        "#914599",
        "#302A9F",
        "#6E6956",
        "#54005C",
        "#00687A",
        "#343422",
    ),
)
CONTRAST = Inks(
    good="#5CFFB8",
    warn="#FFC533",
    bad="#FF8178",
    key="#7CD4FF",
    rule="#B0B0B0",
    line="#FFFFFF",
    test="#FF9FDC",
    data="#FFF0BE",
    compute="#33C9BA",
    sync="#D6BEFF",
    series=(
        "#AAA0FB",
        "#FCFA6E",
        "#CAA77D",
        "#ABDBFE",
        "#FEC5B5",
        "#BED955",
        "#D4FAFE",
        "#77BBC2",
    ),
)
