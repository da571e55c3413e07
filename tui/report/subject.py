"""What a report is about: groups of runs that repeat each other, each a row of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote.metrics.doubt import Doubt
from remote.metrics.run import RunFigures
from remote.statistics.comparison import Comparison
from remote.statistics.interval import Interval

STEP_SECONDS = "step_seconds"
"""The metric of a study that compares the time of a step."""


@dataclass(frozen=True)
class UncountedRun:
    """A run that does not count: another was made in its place, or is to be."""

    repetition: int
    run: str
    verdict: str
    """Failed, interrupted or not ended."""
    cause: str = ""


@dataclass(frozen=True)
class LineAxis:
    """The axis of a study along which lines are drawn."""

    name: str = "nodes"
    marks: tuple[str, ...] = ()
    """Its values in order. Empty for nodes: their number is the position."""


@dataclass(frozen=True)
class MetricOutcome:
    """The metric of a study in one group, and how it compares with that of the reference."""

    value: Interval | None
    against: Comparison | None
    is_same: bool
    """All values equal those of the reference within rounding."""


@dataclass(frozen=True, eq=False)
class RunGroup:
    """The runs of a cell of a study, or one run."""

    label: str
    """Its name in tables and pictures."""
    line: str
    """The label without the axis along which lines are drawn."""
    position: float
    """The place on that axis: the index of a mark, or the number of nodes; NaN if it has none."""
    nodes: int
    ranks: int
    batch: int
    """The global batch size; 0 if it is not known."""
    link: float
    """The rate of a host's link in bytes per second; 0 if it is not known."""
    by_repetition: Mapping[int, RunFigures]
    state: str
    failures: tuple[UncountedRun, ...] = ()
    uncounted: tuple[UncountedRun, ...] = ()
    command: str = ""
    """Repeats its first run."""

    @property
    def runs(self) -> tuple[RunFigures, ...]:
        """Return its runs in order of the repetitions."""
        return tuple(self.by_repetition[number] for number in sorted(self.by_repetition))

    @property
    def first_run(self) -> RunFigures | None:
        """Return the run that stands for all: first runs of a study share their seed."""
        return self.runs[0] if self.by_repetition else None

    @property
    def link_per_rank(self) -> float:
        """Return the rate of the link of each rank; 0 if ranks share hosts, or it is not known."""
        return self.link if self.ranks == self.nodes else 0.0


@dataclass(frozen=True, eq=False)
class ReportSubject:
    """A study, or runs that are compared with the first of them."""

    name: str
    title: str
    question: str
    verdict: tuple[str, ...]
    groups: tuple[RunGroup, ...]
    references: tuple[int | None, ...]
    """For each group the index of the group that it is compared with."""
    baseline: int | None
    """The index of the group whose speed-up is 1."""
    is_study: bool
    """Its groups were repeated in blocks."""
    axis: LineAxis = LineAxis()
    target: tuple[str, float] | None = None
    command: str = ""
    """Makes all of it anew."""
    is_quick: bool = False
    """These are the runs of the short variant of the study."""
    given: str = ""
    """What the command line set in place of the study's own settings."""
    metric: str = STEP_SECONDS
    """What the study compares, as its file calls it."""
    metric_name: str = ""
    """The same in words."""
    outcomes: tuple[MetricOutcome, ...] = ()
    """One for each group, if the study compares something else than the time of a step."""
    doubts: tuple[Doubt, ...] = ()
    """Which comparisons of the study show nothing."""

    @property
    def heading(self) -> str:
        """Return the title, which says of a quick study that it is one."""
        return f"{self.title} (quick variant)" if self.is_quick else self.title

    @property
    def runs(self) -> list[RunFigures]:
        """Return all runs, in order of their groups."""
        return [run for group in self.groups for run in group.runs]

    @property
    def measured(self) -> list[RunGroup]:
        """Return the groups that have runs."""
        return [group for group in self.groups if group.by_repetition]

    @property
    def baseline_group(self) -> RunGroup | None:
        """Return the group whose speed-up is 1."""
        return None if self.baseline is None else self.groups[self.baseline]

    def reference_of(self, group: RunGroup) -> RunGroup | None:
        """Return the group that this one is compared with."""
        reference = self.references[self.groups.index(group)]
        return None if reference is None else self.groups[reference]

    def select_groups(self, most: int) -> list[RunGroup]:
        """Return at most so many measured groups: if there are more, the last of each line."""
        groups = self.measured
        if len(groups) > most and len({group.line for group in groups}) > 1:
            by_position = sorted(groups, key=lambda group: group.position)
            last_of_line = {group.line: group for group in by_position}
            groups = [group for group in groups if last_of_line[group.line] is group]
        return groups[:most]

    def describe_left_out(self, most: int) -> list[str]:
        """Return a sentence on what `select_groups` leaves out, or none."""
        total = len(self.measured)
        left_out = total - len(self.select_groups(most))
        if not left_out:
            return []
        return [f"Of {total} cells {left_out} are left out here; data.json has them all."]
