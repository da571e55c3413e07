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
        sign, word = phase_cell(name).text.split()
        assert word == name
        assert len(sign) == 1


def test_every_phase_of_a_rank_has_a_look_in_the_order_of_the_phases() -> None:
    assert [*RANK_LOOKS] == [*RankPhase]
    for look in RANK_LOOKS.values():
        assert look.sign in palette.SIGNS
        assert look.style


@pytest.mark.parametrize("phase", RankPhase)
def test_the_help_names_every_phase_of_a_rank(phase: RankPhase) -> None:
    assert phase.value in help_on_phases()
