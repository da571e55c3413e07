"""The bytes that a method says it sends are those that leave the host, but for headers: real ranks
on hosts of a lab."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from remote.lab.lab import Lab
from remote.lab.spec import INTERFACE, parse
from tests.kit.labs import refused
from tests.kit.sync_ranks import Case, command_on_hosts, outcomes
from training import registry
from training.job import Job

pytestmark = pytest.mark.skipif(bool(refused()), reason=f"no lab can be made here: {refused()}")
HOSTS = 3
PATIENCE = 20.0
"""Seconds that a collective may take."""
METHODS: tuple[tuple[str, ...], ...] = (
    *((sync,) for sync in registry.list_names("sync") if Job(sync=sync).traits().exact),
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


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What came out of all cases, with a rank on each host."""
    folder = tmp_path_factory.mktemp("payload")
    env = os.environ | {
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with ExitStack() as stack:
        lab = stack.enter_context(Lab.start(parse(HOSTS, "10gbit")))
        stderr = stack.enter_context((folder / "stderr").open("w"))
        networks = [
            stack.enter_context(open(f"/proc/{host.pid}/ns/net")).fileno()
            for host in lab.state.hosts
        ]
        first = lab.hosts[0]
        argv, stdin = command_on_hosts(CASES, folder, PATIENCE, networks, first.address)
        subprocess.run(
            [*lab.enter(first.name), *argv],
            input=stdin,
            stderr=stderr,
            env=env,
            pass_fds=networks,
            timeout=90,
            check=False,
        )
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
    assert {sync for sync, *_ in METHODS} == set(registry.list_names("sync")) - {"none"}
