"""The panel of hosts: their phases, and what they use.

A test of a column on the right takes a terminal of 200 columns: else it may be out of view.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote import events as launcher
from tests.kit.acted import cluster, until
from tests.kit.dashboard import Stage
from training.wire import host_events
from training.wire.events import SESSION


async def test_while_starting_the_hosts_and_their_phases_are_on_the_screen() -> None:
    stage = Stage()
    async with stage.shown() as pilot:
        stage.session.say(
            SESSION,
            launcher.HostPhaseChanged(0, "deploying"),
            launcher.HostPhaseChanged(1, "connecting"),
        )
        await until(pilot, lambda: "deploying" in stage.text() and "connecting" in stage.text())
        stage.session.say(
            SESSION,
            launcher.HostLost(
                1, "node2 does not answer at 127.0.0.2:22: is sshd running there?", False
            ),
        )
        await until(pilot, lambda: "✗ lost" in stage.text())
        assert "does not answer at 127.0.0.2:22" in " ".join(stage.text().split())


@pytest.mark.parametrize(("address", "shown"), [("127.0.0.", False), ("10.0.0.", True)])
async def test_traffic_is_shown_only_where_it_goes_over_what_is_counted(
    address: str, shown: bool
) -> None:
    stage = Stage()
    lab = cluster()
    hosts = tuple(
        replace(host, address=f"{address}{number}") for number, host in enumerate(lab.hosts, 1)
    )
    lab = replace(lab, hosts=hosts)
    stage.app.runs.launch = replace(stage.app.runs.launch, cluster=lab, selected=lab)
    async with stage.training(size=(160, 48)) as pilot:
        sample = host_events.HostSample(
            (50.0,), 7_000_000_000, 16_000_000_000, sent=84, received=84
        )
        stage.session.say(0, sample)
        stage.session.say(1, sample)
        await until(pilot, lambda: "6.5G" in stage.text())
        assert ("84B" in stage.text()) is shown
