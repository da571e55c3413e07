"""What a report is about: groups of runs that repeat each other, each a row of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote.metrics.run import RunFigures
from remote.study.results import StudyResult
from remote.study.study import Study

MOST_GROUPS = 7
"""Groups in a picture or a list: more cannot be told apart."""


@dataclass(frozen=True)
class UncountedRun:
    """A run that does not count: another was made in its place, or is to be."""

    repetition: int
    run: str
    verdict: str
    """Failed, interrupted or running."""
    cause: str = ""


@dataclass(frozen=True)
class LineAxis:
    """The axis of a study along which lines are drawn."""

    name: str = "nodes"
    marks: tuple[str, ...] = ()
    """Its values in order. Empty for nodes: their number is the position."""


@dataclass(frozen=True, eq=False)
class RunGroup:
    """The runs of a cell of a study, or one run."""

    name: str
    """The key of the cell, or the name of the run."""
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
    """Runs for which there is no other one yet."""
    uncounted: tuple[UncountedRun, ...] = ()
    """Other runs that do not count."""

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
    verdict: tuple[str, ...]
    groups: tuple[RunGroup, ...]
    command: str = ""
    """Makes the study anew."""
    result: StudyResult | None = None
    """What came out of a study; None of runs."""
    times: StudyResult | None = None
    """The same as `result` if the study compared the time of a step."""
    axis: LineAxis = LineAxis()

    @property
    def study(self) -> Study | None:
        """Return the study; None of runs."""
        return self.result.study if self.result else None

    @property
    def is_quick(self) -> bool:
        """Return True if these are the runs of the short variant of a study."""
        return self.study is not None and self.study.is_quick

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
    def labels(self) -> dict[str, str]:
        """Return the labels of groups by their names."""
        return {group.name: group.label for group in self.groups}

    @property
    def baseline(self) -> RunGroup | None:
        """Return the group whose speed-up is 1; None of runs."""
        return self._find_group(self.study.baseline) if self.study else None

    def reference_of(self, group: RunGroup) -> RunGroup | None:
        """Return the group that this one is compared with."""
        # Runs have no baseline of their own: the first one that is named is it.
        if self.study is None:
            first_group = self.groups[0]
            return None if group is first_group else first_group
        cell = self.study.cell(group.name)
        reference = self.study.counterpart(cell) if cell else None
        return self._find_group(reference.key) if reference else None

    def _find_group(self, name: str) -> RunGroup | None:
        return next((group for group in self.groups if group.name == name), None)

    def select_groups(self) -> list[RunGroup]:
        """Return at most `MOST_GROUPS` measured groups: if there are more, the last of each
        line."""
        groups = self.measured
        if len(groups) > MOST_GROUPS and len({group.line for group in groups}) > 1:
            # The last of a line stands for it: the largest number of nodes shows most.
            by_position = sorted(groups, key=lambda group: group.position)
            last_of_line = {group.line: group for group in by_position}
            groups = [group for group in groups if last_of_line[group.line] is group]
        return groups[:MOST_GROUPS]

    def describe_selected(self) -> list[str]:
        """Return a sentence on the groups that `select_groups` leaves out, or none."""
        num_measured = len(self.measured)
        num_left_out = num_measured - len(self.select_groups())
        if not num_left_out:
            return []
        return [
            f"Of {num_measured} cells {num_left_out} are left out here; data.json has them all."
        ]
