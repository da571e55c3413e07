"""Phases in tables."""

from __future__ import annotations

from remote.run.state.phases import HostPhase, RankPhase, RunPhase, Verdict
from tui.kit.widgets.phase import phase_cell


def test_every_phase_has_a_sign_and_a_word() -> None:
    names = [*RunPhase, *HostPhase, *RankPhase, *(verdict.name.lower() for verdict in Verdict)]
    for name in names:
        sign, word = phase_cell(name).text.split()
        assert word == name
        assert len(sign) == 1
