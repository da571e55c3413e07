"""What a report is about: groups of runs that repeat each other, each a row of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote.metrics.doubt import Doubt
from remote.metrics.run import RunFigures
from remote.statistics.interval import Interval
from remote.statistics.ratio import Comparison

STEP_SECONDS = "step_seconds"
"""The metric of a study that compares the time of a step."""


@dataclass(frozen=True)
class Uncounted:
    """A run that does not count, because another was made in its place, or is to be: its
    repetition, whether it failed, was interrupted or has not ended, and why."""

    repetition: int
    run: str
    verdict: str
    cause: str = ""


@dataclass(frozen=True)
class Along:
    """The axis of a study along which lines are drawn. `marks` are its values in order; none of
    nodes, of which the number is the place."""

    name: str = "nodes"
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """What a study compares of a group: its `value` with the interval, how that is `against` its
    reference, and whether it `is_same` within rounding; None where there is nothing."""

    value: Interval | None
    against: Comparison | None
    is_same: bool


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of a cell of a study by repetition, or one run.

    `label` names it in tables and pictures. `line` is the label without the axis along which lines
    are drawn: groups of one line differ in nothing else. `at` is the place on that axis, the index
    of a mark or the number of nodes; NaN of a group that has none. `link` is the rate of a host's
    link in bytes per second, 0 where it is not known. `command` repeats its first run.
    """

    label: str
    line: str
    at: float
    nodes: int
    ranks: int
    batch: int
    link: float
    runs: Mapping[int, RunFigures]
    state: str
    failures: tuple[Uncounted, ...] = ()
    uncounted: tuple[Uncounted, ...] = ()
    command: str = ""

    @property
    def all(self) -> tuple[RunFigures, ...]:
        """Its runs in order of the repetitions."""
        return tuple(self.runs[number] for number in sorted(self.runs))

    @property
    def own_link(self) -> float:
        """The rate of the link that each rank has for itself; 0 where ranks share hosts, or it is
        not known."""
        return self.link if self.ranks == self.nodes else 0.0

    @property
    def first(self) -> RunFigures | None:
        """Its first run, which stands for all where one is shown: first runs of a study share their
        seed. None without runs."""
        return self.all[0] if self.runs else None


@dataclass(frozen=True, eq=False)
class Subject:
    """A study, or runs that are compared with the first of them.

    `references` has for each group the index of that with which it is compared, None where there is
    none; `baseline` is the group of which the speed-up is 1. `is_study`: its groups were repeated
    in blocks. `is_quick`: these are the runs of its short variant. `given` says what the command
    line set in place of the study's own settings. `again` is the command that
    makes it all anew. `metric` is what the study compares, as it is called in its file, and
    `metric_name` that in words; where it is not the time of a step, `outcomes` has one of each
    group. `doubts` say which of its comparisons show nothing.
    """

    name: str
    title: str
    question: str
    verdict: tuple[str, ...]
    groups: tuple[Group, ...]
    references: tuple[int | None, ...]
    baseline: int | None
    is_study: bool
    along: Along = Along()
    target: tuple[str, float] | None = None
    again: str = ""
    is_quick: bool = False
    given: str = ""
    metric: str = STEP_SECONDS
    metric_name: str = ""
    outcomes: tuple[Judged, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def heading(self) -> str:
        """The title, which says of a quick study that it is one."""
        return f"{self.title} (quick variant)" if self.is_quick else self.title

    @property
    def runs(self) -> list[RunFigures]:
        """All runs, in order of their groups."""
        return [run for group in self.groups for run in group.all]

    def shown(self, most: int) -> list[Group]:
        """The groups that have runs, where a picture of each has place for so many: of each line
        the last, if there are more."""
        groups = self.measured
        if len(groups) > most and len({group.line for group in groups}) > 1:
            last = {group.line: group for group in sorted(groups, key=lambda group: group.at)}
            groups = [group for group in groups if last[group.line] is group]
        return groups[:most]

    def selection(self, most: int) -> list[str]:
        """A sentence on what `shown` leaves out."""
        left = len(self.measured) - len(self.shown(most))
        if not left:
            return []
        return [f"Of {len(self.measured)} cells {left} are left out here; data.json has them all."]

    @property
    def measured(self) -> list[Group]:
        """The groups that have runs."""
        return [group for group in self.groups if group.runs]
