"""Fewer faults with the same end."""

from __future__ import annotations

from tests.simulation.scenario import Scenario
from tests.simulation.world import World


def problem_of(scenario: Scenario) -> str:
    """What goes wrong in a simulation; "" where nothing does."""
    try:
        World(scenario).run()
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def shrink(scenario: Scenario, problem: str) -> Scenario:
    """The scenario without the faults that its failure, of the same kind, does not need."""
    kind = problem.partition(":")[0]
    for fault in scenario.faults:
        smaller = scenario.without(fault)
        if problem_of(smaller).partition(":")[0] == kind:
            scenario = smaller
    return scenario
