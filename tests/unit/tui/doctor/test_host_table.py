"""What the screen of the checks says of hosts side by side, and of leaving one out."""

from __future__ import annotations

from remote.doctor.doctor import OK, WARNING
from remote.doctor.step_estimate import ExclusionEstimate, StepEstimate
from remote.events import CheckFinished
from remote.run.run_state import RunState
from tests.kit.histories import History, plan
from tui.doctor.host_table import HostChoice, HostLine, find_same_checks, make_choices


def text_of(line: HostLine) -> str:
    return "".join(text for _, text in line.cells)


def draw_choices(estimate: ExclusionEstimate, width: int = 118) -> list[str]:
    choices = [
        HostChoice("without node3", estimate.without, is_advised=True),
        HostChoice("with all 4 hosts", estimate.with_all),
    ]
    return [text_of(line) for line in make_choices(choices, estimate, ["node3"], width)]


def test_a_choice_says_what_it_gains_and_what_a_rank_has_to_do_then() -> None:
    estimate = ExclusionEstimate(0.4, StepEstimate(4, 4.0, 16), StepEstimate(3, 22 / 16, 22))
    _, without, with_all = draw_choices(estimate)
    assert "2.9x faster to compute, 22 samples per rank, 3 hosts" in without
    assert "all wait for node3, 16 samples per rank, 4 hosts" in with_all
    _, brief, _ = draw_choices(estimate, width=78)
    assert "2.9x faster to compute" in brief
    assert with_all.count("━") > 2 * without.count("━") > 0


def test_of_a_script_nobody_knows_the_samples() -> None:
    estimate = ExclusionEstimate(0.4, StepEstimate(4, 4.0, 0), StepEstimate(3, 1.0, 0))
    _, without, _ = draw_choices(estimate)
    assert without.rstrip().endswith("4x faster to compute")


def checked(*values_by_host: dict[str, tuple[str, str]]) -> RunState:
    """A run whose checks have these outcomes and texts."""
    history = History(plan(len(values_by_host)))
    for host, values in enumerate(values_by_host):
        for name, (outcome, text) in values.items():
            history.session(CheckFinished(host, name, outcome, text))
    return history.state()


def test_checks_are_the_same_only_if_all_hosts_have_passed_them_with_one_value() -> None:
    usual = {"torch": (OK, "2.14"), "disk": (WARNING, "3 GiB"), "cores": (OK, "4")}
    state = checked(usual, usual | {"cores": (OK, "2")})
    names = ["torch", "disk", "cores"]
    assert find_same_checks(state, names) == ["torch"]
    assert find_same_checks(checked(usual), names) == [], "one host is like no other"
