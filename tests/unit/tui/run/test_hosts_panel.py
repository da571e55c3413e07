"""The panel of hosts: their phases, and what they use.

A test of a column on the right takes a terminal of 200 columns: else it may be out of view.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote import events as launcher
from remote.plan.plan import Script
from tests.kit.acted import cluster, until
from tests.kit.dashboard import Stage
from tests.kit.dumps import STOPPED, by
from training.wire import host_events, rank_events
from training.wire.enums import Phase
from training.wire.events import SESSION
from tui.charts.panel import Charts
from tui.run.hosts_panel import HostsPanel
from tui.run.start_strip import StartStrip


async def test_while_starting_each_host_shows_its_stage_and_why_it_is_lost() -> None:
    stage = Stage()
    async with stage.shown() as pilot:
        stage.session.say(
            SESSION,
            launcher.HostPhaseChanged(0, "deploying"),
            launcher.HostPhaseChanged(1, "connecting"),
        )
        await until(pilot, lambda: "✓" in line_of(stage, "node1"))
        assert line_of(stage, "node1").split()[:3] == ["node1", "✓", "◐"]
        assert line_of(stage, "node2").split()[:2] == ["node2", "◐"]
        stage.session.say(
            SESSION,
            launcher.HostLost(
                1, "node2 does not answer at 127.0.0.2:22: is sshd running there?", False
            ),
        )
        await until(pilot, lambda: "✗ lost" in stage.text())
        assert "does not answer at 127.0.0.2:22" in " ".join(stage.text().split())


async def test_before_the_first_step_a_strip_says_what_the_start_waits_for_and_what_helps() -> None:
    stage = Stage(hosts=4, slots=1)
    async with stage.shown() as pilot:
        for index in range(4):
            stage.session.say(
                SESSION,
                launcher.HostPhaseChanged(index, "connecting" if index == 3 else "ready"),
            )
        await until(pilot, lambda: "waiting for node4: connecting" in stage.text())
        assert "usually takes about 2 s" in stage.text()
        for key in ("D check", "s where", "q stop"):
            assert key in stage.text()
        assert not any(chart.display for chart in stage.screen.query(Charts))
        await stage.train(pilot)
        await until(pilot, lambda: " loss" in stage.text())
        assert "waiting for" not in stage.text()
        assert stage.screen.query(Charts).first().display


async def test_the_strip_says_what_the_same_took_in_the_last_run() -> None:
    stage = Stage(hosts=1, slots=2)
    async with stage.shown() as pilot:
        strip = stage.screen.query_one(StartStrip)
        strip._find_last_start = lambda: {"connect": 1.26}
        strip._has_asked = False
        stage.session.say(SESSION, launcher.HostPhaseChanged(0, "connecting"))
        await until(pilot, lambda: "this took 1.3 s in the last run" in stage.text())


async def test_a_start_that_goes_as_usual_is_calm_and_what_is_wrong_comes_first() -> None:
    stage = Stage(hosts=1, slots=2)
    async with stage.shown() as pilot:
        stage.session.say(SESSION, launcher.HostPhaseChanged(0, "connecting"))
        await until(pilot, lambda: "connecting" in strip_text(stage))
        strip = stage.screen.query_one(StartStrip)
        assert strip.has_class("-neutral")
        assert "▲" not in strip_text(stage)
        text = "about 8 other processes slow every rank down"
        advice = "busy: python 1.9 cores; wait for their end"
        check = launcher.CheckFinished(0, "load", "warning", text, advice)
        stage.session.say(SESSION, check)
        await until(pilot, lambda: f"▲ {text}" in strip_text(stage))
        lines = strip_text(stage).replace("▌", " ").splitlines()
        assert lines[1].strip() == advice
        assert lines[2].strip().startswith("connecting, ")
        assert "▶ y copy the command to list the programs on node1" in lines[3]
        await pilot.press("y")
        await until(pilot, lambda: "top" in stage.app.clipboard)


async def test_of_many_hosts_whoever_is_behind_comes_first() -> None:
    stage = Stage(hosts=24, slots=1)
    async with stage.shown() as pilot:
        for index in range(24):
            phase = "connecting" if index == 20 else "deploying"
            stage.session.say(SESSION, launcher.HostPhaseChanged(index, phase))
        await until(pilot, lambda: "node21" in first_row(stage))


def first_row(stage: Stage) -> str:
    region = stage.screen.query_one(HostsPanel).region
    return stage.text().splitlines()[region.y + 2]


async def test_a_warning_of_a_host_is_whole_while_it_starts() -> None:
    stage = Stage(hosts=4, slots=1)
    text = "0.1 per rank, 0.4 on the median host, " + "so that every step waits for it " * 3
    async with stage.shown() as pilot:
        stage.session.say(
            SESSION, launcher.CheckFinished(2, "cores", "warning", text, "use other hosts")
        )
        shown = f"node3: {text.strip()} use other hosts"
        await until(pilot, lambda: shown in " ".join(stage.text().replace("▌", "").split()))
        assert "use other hosts" not in panel_text(stage), "said once"
        stage.session.say(SESSION, launcher.CheckFinished(1, "disk", "warning", text, "clean up"))
        shown_below = f"node2: disk: {text.strip()} ▶ clean up"
        await until(pilot, lambda: shown_below in " ".join(panel_text(stage).split()))


async def test_at_the_start_a_key_leaves_out_the_host_that_would_hold_all_up() -> None:
    stage = Stage(hosts=3, slots=1)
    async with stage.shown() as pilot:
        assert "▶" not in strip_text(stage), "there is nothing to do"
        advice = "leave it out with --exclude node3"
        text = "only 0.1 cores, the others 0.4"
        check = launcher.CheckFinished(2, "cores", "warning", text, advice, helps_to_exclude=True)
        stage.session.say(SESSION, check)
        await until(pilot, lambda: "node3: only 0.1 cores, the others 0.4" in strip_text(stage))
        assert "▶ y copy the command without node3   q stop this run, then paste it" in (
            strip_text(stage)
        )
        assert stage.screen.query_one(StartStrip).has_class("-warn")
        await pilot.press("y")
        await until(pilot, lambda: "--exclude node3" in stage.app.clipboard)


async def test_a_rank_that_a_signal_has_stopped_explains_the_start_and_a_busy_host_does_not() -> (
    None
):
    stage = Stage(hosts=2, slots=1)
    stage.app.runs.launch = replace(stage.app.runs.launch, work=Script(("train.py",), watch=True))
    call = "DistributedDataParallel"
    load = "about 5 other processes on 2 cores slow every rank down"
    async with stage.shown(size=(120, 40)) as pilot:
        stage.session.say(SESSION, launcher.CheckFinished(0, "load", "warning", load, "run top"))
        for rank in range(2):
            stage.session.say(SESSION, launcher.HostPhaseChanged(rank, "ready"))
            stage.session.say(rank, host_events.Launched((rank,)))
            stage.session.say(rank, host_events.Spawned(rank, 100 + rank))
            stage.session.say(rank, rank_events.Entered(rank, Phase.JOINING, call))
        await until(pilot, lambda: "all ranks are inside" in strip_text(stage))
        assert load in strip_text(stage)
        stage.session.say(1, by(STOPPED, 1))
        named = f"waiting for rank 1 on node2: is stopped, by SIGSTOP or a debugger, in {call}"
        await until(pilot, lambda: named in " ".join(strip_text(stage).split()))
        assert load not in strip_text(stage)


def strip_text(stage: Stage) -> str:
    region = stage.screen.query_one(StartStrip).region
    return "\n".join(stage.text().splitlines()[region.y : region.bottom])


def line_of(stage: Stage, name: str) -> str:
    return next((line for line in stage.text().splitlines() if line.lstrip().startswith(name)), "")


def panel_text(stage: Stage) -> str:
    region = stage.screen.query_one(HostsPanel).region
    return "\n".join(stage.text().splitlines()[region.y : region.bottom])


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


async def test_a_host_that_waits_for_another_one_is_ready() -> None:
    stage = Stage(hosts=2, slots=1)
    async with stage.shown() as pilot:
        for index in range(2):
            stage.session.say(SESSION, launcher.HostPhaseChanged(index, "ready"))
            stage.session.say(index, host_events.Launched((index,)))
        stage.session.say(0, rank_events.Entered(0, Phase("rendezvous")))
        await until(pilot, lambda: "● ready" in line_of(stage, "node1"))
        assert "ready" not in line_of(stage, "node2")
        stage.session.say(1, rank_events.Entered(1, Phase("rendezvous")))
        await until(pilot, lambda: "ready" not in line_of(stage, "node1"))
