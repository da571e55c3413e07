"""The bytes that a method says it sends are those that leave the host, but for headers: real ranks
on hosts of a lab."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from remote.lab.lab import Lab
from remote.lab.spec import INTERFACE, parse
from tests.kit.labs import refused
from tests.kit.sync_ranks import Case, command_on_host, outcomes
from training import registry
from training.job import Job

pytestmark = pytest.mark.skipif(bool(refused()), reason=f"no lab can be made here: {refused()}")
HOSTS = 3
PATIENCE = 20.0
"""Seconds that a collective may take."""
METHODS: tuple[tuple[str, ...], ...] = (
    *((sync,) for sync in registry.names("sync") if Job(sync=sync).traits().exact),
    ("all_reduce", "granularity=parameter"),
    ("all_reduce", "granularity=flat"),
    ("ring", "granularity=flat"),
    ("gather_scatter", "granularity=parameter"),
    ("parameter_server", "dedicated=yes"),
    ("parameter_server", "mode=async", "dedicated=yes"),
    ("ddp", "compression=bf16"),
    ("ddp", "compression=powersgd"),
    ("local_sgd", "every=2"),
    ("local_sgd", "warmup=2"),
)
"""Every exact method, and others, with options that change what they send."""
CASES = [
    Case(sync, tuple(options), HOSTS, (1,) * HOSTS, net="wide", steps=4)
    for sync, *options in METHODS
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What came out of all cases, with a rank on each host."""
    folder = tmp_path_factory.mktemp("payload")
    env = os.environ | {
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with Lab.start(parse(HOSTS, "10gbit")) as lab, (folder / "stderr").open("w") as stderr:
        ranks = []
        for rank, host in enumerate(lab.hosts):
            argv, stdin = command_on_host(CASES, folder, PATIENCE, rank, lab.hosts[0].address)
            ranks.append(
                subprocess.Popen(
                    [*lab.enter(host.name), *argv], stdin=subprocess.PIPE, stderr=stderr, env=env
                )
            )
            ranks[-1].stdin.write(stdin)  # type: ignore[union-attr]
            ranks[-1].stdin.close()  # type: ignore[union-attr]
        for process in ranks:
            process.wait(90)
    return folder


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_payload_is_what_leaves_the_host(folder: Path, case: Case) -> None:
    found = [outcome for outcome in outcomes(folder, case) if outcome]
    assert [outcome.error for outcome in found] == [""] * HOSTS, (folder / "stderr").read_text()
    trained = [outcome for outcome in found if outcome.losses]
    assert len(trained) == HOSTS - ("dedicated=yes" in case.options)
    for outcome in trained:
        assert outcome.payload > 2**20
        assert outcome.payload == pytest.approx(outcome.sent, rel=0.1)


def test_every_method_is_held_to_it() -> None:
    assert {sync for sync, *_ in METHODS} == set(registry.names("sync")) - {"none"}
