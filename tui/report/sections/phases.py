"""Where the time of an iteration goes."""

from __future__ import annotations

from remote.format import percent, seconds
from tui.report.document import Section, Table
from tui.report.numbers.phases import PHASES, phases
from tui.report.numbers.timing import Timing, iterations
from tui.report.pictures import phases as picture
from tui.report.subject import Subject

HEAD = ("cell", "s/iter", "data s", "compute s", "sync s", "sync share")


def section(subject: Subject, timing: Timing) -> Section | None:
    """The table and the picture; None of programs that do not tell their phases."""
    found = [(row.group.label, phases(row.group)) for row in timing.rows]
    found = [(name, parts) for name, parts in found if sum(parts.values()) > parts["seconds"]]
    if not found:
        return None
    rows = [
        (
            name,
            *(seconds(parts[phase]) for phase in ("seconds", *PHASES)),
            percent(parts["sync"] / parts["seconds"]),
        )
        for name, parts in found
    ]
    note = f"Means over ranks of {iterations(subject)}. sync: the time a rank is blocked on others."
    if any(len(row.group.runs) > 1 for row in timing.rows):
        note += (
            " Over runs these are arithmetic means, so that phases add up: s/iter may be a little "
            "more than the geometric mean in the other tables."
        )
    return Section(
        "phases", "Phases", (), [Table("Phases", HEAD, rows, note)], [picture.picture(found)]
    )
