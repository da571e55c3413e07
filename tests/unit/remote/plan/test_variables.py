"""The variables of the ranks as settings."""

from __future__ import annotations

import pytest

from remote.plan.variables import HIDDEN, describe_variables


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "password", "KEY"],
)
def test_a_variable_whose_name_says_that_it_is_secret_has_no_value(name: str) -> None:
    assert describe_variables([{name: "one"}, {name: "two"}]) == {f"${name}": HIDDEN}


@pytest.mark.parametrize("name", ["LR", "MAX_TOKENS", "TOKENIZERS_PARALLELISM", "MONKEY", "PASSES"])
def test_other_variables_have_their_value(name: str) -> None:
    assert describe_variables([{name: "8"}, {name: "8"}]) == {f"${name}": "8"}


def test_values_of_hosts_that_differ_are_listed_in_their_order() -> None:
    hosts = [{"IFACE": "eth0", "LR": "1"}, {"IFACE": "lan0"}, {"IFACE": "eth0", "LR": "1"}]
    assert describe_variables(hosts) == {"$IFACE": "eth0, lan0", "$LR": "1, -"}
    assert describe_variables([{"CUDA_VISIBLE_DEVICES": ""}]) == {"$CUDA_VISIBLE_DEVICES": '""'}


def test_a_name_that_no_environment_has_is_left_out() -> None:
    assert describe_variables([{"A\x1b[2J": "1", "B C": "2", "": "3"}]) == {}
