"""Every phase of a rank has all that a phase needs, wherever it is told."""

from __future__ import annotations

import pytest

from remote.run.findings.start_waits import waiting
from remote.run.state.phases import (
    FATES,
    MEETINGS,
    REPORTED_START,
    START_PHASES,
    PhasePart,
    RankPhase,
)
from tests.kit.agents import ROOT
from tests.kit.histories import plan
from tests.kit.starts import WORK, going, reached
from training.wire.enums import Phase

PAGES = {
    "docs/reference/events.md": "| `entered` | `phase`: ",
    "docs/reference/states.md": "A live run that only its hosts know is ",
}
"""Where each page lists the phases that a rank reports: the start of its paragraph."""


def test_a_rank_reports_the_phases_of_the_wire_and_no_others() -> None:
    reported = [phase.value for phase in RankPhase if phase.is_reported]
    assert reported == [phase.value for phase in Phase]


@pytest.mark.parametrize("phase", RankPhase)
def test_a_phase_has_its_words_where_it_is_told(phase: RankPhase) -> None:
    is_start = phase.part is PhasePart.START
    assert bool(phase.wait) == bool(phase.script_wait) == is_start
    assert bool(phase.activity) == (phase.part is not PhasePart.END)


def test_the_parts_are_those_that_the_rest_of_the_program_asks_for() -> None:
    assert [*START_PHASES] == [*RankPhase][: len(START_PHASES)]
    assert {*REPORTED_START} < {*START_PHASES}
    assert len({phase.wait for phase in START_PHASES}) == len(START_PHASES)
    assert not MEETINGS & FATES
    assert type(RankPhase.LOADING.value) is str


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("phase", START_PHASES)
def test_a_wait_in_each_phase_of_the_start_is_put_into_words(
    phase: RankPhase, script: bool
) -> None:
    history = reached(2)
    if phase.value in WORK:
        # Of a script, ranks that join are behind only if all do: else others have not come yet.
        is_of_all = script and phase is RankPhase.JOINING
        history = going(dict.fromkeys((0, 1) if is_of_all else (1,), phase.value), 2)
    state = history.state()
    if script:
        state.plan = plan(2, script=True)
    (wait,) = waiting(state, state.now + 10)
    assert wait.progress
    assert not {*"{}"} & {*wait.progress}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_lists_the_phases_that_a_rank_reports(page: str) -> None:
    text = (ROOT / page).read_text()
    paragraph = text.partition(PAGES[page])[2].partition("\n\n")[0].partition(" |")[0]
    named = [phase.value for phase in Phase if f"`{phase.value}`" in paragraph]
    assert named == [phase.value for phase in Phase]


def test_the_page_on_states_lists_how_a_rank_ends() -> None:
    text = (ROOT / "docs/reference/states.md").read_text()
    table = text.partition("| end of a rank |")[2].partition("\n\n")[0]
    listed = [row.split("`")[1] for row in table.splitlines() if row.startswith("| `")]
    assert listed == [phase.value for phase in RankPhase if phase in FATES]
