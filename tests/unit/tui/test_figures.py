"""Phases in tables."""

from __future__ import annotations

import pytest

from remote.run.state.phases import HostPhase, RankPhase, RunPhase, Verdict
from tui.kit import palette
from tui.kit.rank_looks import RANK_LOOKS, help_on_phases
from tui.kit.widgets.phase import phase_cell


def test_every_phase_has_a_sign_and_a_word() -> None:
    names = [*RunPhase, *HostPhase, *RankPhase, *(verdict.name.lower() for verdict in Verdict)]
    for name in names:
        sign, word = phase_cell(name).text.split(maxsplit=1)
        assert word == name
        assert len(sign) == 1


def test_every_phase_of_a_rank_has_a_look_in_the_order_of_the_phases() -> None:
    assert [*RANK_LOOKS] == [*RankPhase]
    for look in RANK_LOOKS.values():
        assert look.sign in palette.SIGNS


def test_the_inks_of_states_are_those_of_states_only() -> None:
    """A rank that imports, tests or saves is neither well nor ill."""
    for style, phases in {
        "table--good": {RankPhase.TRAINING, RankPhase.SERVING, RankPhase.FINISHED},
        "table--bad": {RankPhase.FAILED, RankPhase.LOST},
    }.items():
        assert {phase for phase, look in RANK_LOOKS.items() if look.style == style} == phases


@pytest.mark.parametrize("phase", RankPhase)
def test_the_help_names_every_phase_of_a_rank(phase: RankPhase) -> None:
    assert phase in help_on_phases()
