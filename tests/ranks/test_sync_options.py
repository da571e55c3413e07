"""Each option of each method of synchronisation changes what ranks call, send or learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.sync_ranks import Case, Outcome
from tests.kit.sync_runs import Ran
from training import registry
from training.options import Option, declared_options

OTHER_VALUES = {
    "bucket_mb": "0.0005",
    "segment_kb": "0.05",
    "server": "1",
    "every": "2",
    "warmup": "2",
    "rank": "1",
    "start": "3",
}
"""A value of each numeric option that is not its default, with an effect on the nets here."""
BASES = {
    "granularity": ("bucket_mb=0.0005",),
    "rank": ("compression=powersgd",),
    "start": ("compression=powersgd",),
}
"""Options without which another one's default would do the same as its other values."""


def other_values(option: Option) -> list[str]:
    """Return the values of an option that are not its default."""
    if option.choices:
        return [choice for choice in option.choices if choice != option.default]
    if isinstance(option.default, bool):
        return ["no" if option.default else "yes"]
    return [OTHER_VALUES[option.name]]


def changes() -> Iterator[tuple[Case, ...]]:
    """Yield a case with an option's default and one with another value, for all other values."""
    for sync in registry.list_names("sync"):
        for option in declared_options(sync):
            name = option.name
            base = BASES.get(name, ())
            for value in other_values(option):
                changed = (f"{name}={value}",)
                if name != "granularity":  # of which other values refuse `bucket_mb`
                    changed = (*base, *changed)
                net = "wide" if "compression=powersgd" in changed else "common"
                hosts = (2, 1) if sync == "hierarchical" else ()
                yield tuple(Case(sync, words, 3, hosts, net=net) for words in (base, changed))


@pytest.mark.parametrize(("base", "changed"), [*changes()], ids=str)
def test_each_option_changes_what_ranks_do(ran: Ran, base: Case, changed: Case) -> None:
    assert traffic(ran(base)) != traffic(ran(changed))


def traffic(outcomes: list[Outcome]) -> list[tuple[Any, ...]]:
    """Return what each rank called and sent, in all steps."""
    return [(outcome.calls, outcome.largest, outcome.payload) for outcome in outcomes]


@pytest.mark.parametrize(
    "case",
    [Case(sync, ("segment_kb=0.05",), 3, net="common") for sync in ("ring", "gather_scatter")],
    ids=str,
)
def test_segments_are_as_large_as_the_option_says(ran: Ran, case: Case) -> None:
    element = 8
    for outcome in ran(case):
        assert 50 - element <= outcome.largest["isend"] <= 50 + element


@pytest.mark.parametrize(
    "case", [Case("all_reduce", ("granularity=parameter",), 3, net="common")], ids=str
)
def test_one_parameter_is_exchanged_after_the_other(ran: Ran, case: Case) -> None:
    for outcome in ran(case):
        assert outcome.calls["all_reduce"] > outcome.calls["all_reduce, async"] == 0


@pytest.mark.parametrize(
    "case", [Case("gather_scatter", ("granularity=parameter",), 3, net="common")], ids=str
)
def test_one_parameter_is_gathered_after_the_other(ran: Ran, case: Case) -> None:
    for outcome in ran(case):
        assert outcome.calls["isend"] == outcome.calls["irecv"] == 0


NEVER, ALWAYS, SOMETIMES = (
    Case("local_sgd", (f"every={steps}",), 3, net="common") for steps in (9, 1, 2)
)


@pytest.mark.parametrize(("case", "averages"), [(ALWAYS, 4), (SOMETIMES, 2)], ids=str)
@pytest.mark.parametrize("never", [NEVER], ids=str)
def test_parameters_are_averaged_as_often_as_the_option_says(
    ran: Ran, case: Case, averages: int, never: Case
) -> None:
    """The last step of a run is followed by an average in any case."""
    for outcome, other in zip(ran(case), ran(never), strict=True):
        assert outcome.calls["all_reduce"] - other.calls["all_reduce"] == averages


def test_each_numeric_option_has_another_value() -> None:
    for sync in registry.list_names("sync"):
        for option in declared_options(sync):
            assert other_values(option) != [str(option.default)]
