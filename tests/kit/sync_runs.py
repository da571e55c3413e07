"""The fixtures `ran` and `ran_on_gpus`: all cases of the tests that were asked for, run by
`sync_ranks` in one go."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.wait import wait

if TYPE_CHECKING:
    from tests.kit.sync_ranks import Case, Outcome

PATIENCE = 20.0
"""Seconds that a collective may take."""
Ran = Callable[["Case"], "list[Outcome]"]
"""Waits until a case has been run, and gives what each rank came to; fails where one has failed."""


@pytest.fixture(scope="session")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """What came out of a case on CPUs."""
    yield from running(chosen(request, "ran"), tmp_path_factory, "gloo")


@pytest.fixture(scope="session")
def ran_on_gpus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ran]:
    """What came out of a case on GPUs, one for each rank."""
    yield from running(chosen(request, "ran_on_gpus"), tmp_path_factory, "nccl")


def chosen(request: pytest.FixtureRequest, fixture: str) -> list[Case]:
    """The cases of all tests of this session that use the fixture, each once."""
    used = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and fixture in item.fixturenames
    ]
    return list(dict.fromkeys(item.callspec.params["case"] for item in used))


def running(
    cases: list[Case], tmp_path_factory: pytest.TempPathFactory, backend: str
) -> Iterator[Ran]:
    """Runs the cases, once for all of pytest's workers."""
    from tests.kit.sync_ranks import ENDED, files, outcomes

    base, shared = tmp_path_factory.getbasetemp(), "PYTEST_XDIST_WORKER" in os.environ
    folder = (base.parent if shared else base) / f"sync-{backend}"
    process = started(folder, backend, cases)

    def result(case: Case) -> list[Outcome]:
        while (
            not all(file.exists() for file in files(folder, case))
            and not (folder / ENDED).exists()
            and not (process and process.poll())
        ):
            time.sleep(0.01)
        found = [outcome for outcome in outcomes(folder, case) if outcome]
        errors = "\n".join(outcome.error for outcome in found if outcome.error)
        assert not errors, f"{case}:\n{errors}"
        assert len(found) == case.world, (
            f"{case}: a rank has died\n{(folder / 'stderr').read_text()}"
        )
        return found

    yield result
    if process:
        with process:  # a worker that has no more tests of its own still serves the others
            wait(
                lambda: not shared or process.poll() is not None,
                "the cases' end",
                PATIENCE * len(cases),
            )
            process.kill()


def started(folder: Path, backend: str, cases: list[Case]) -> subprocess.Popen[bytes] | None:
    """The process that runs the cases; None where another worker has started it."""
    from tests.kit.sync_ranks import command

    try:
        folder.mkdir()
    except FileExistsError:
        return None
    argv, stdin = command(cases, folder, backend, PATIENCE)
    env = os.environ | {
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    env |= {"PYTHONWARNINGS": "error::FutureWarning"}  # the calls that torch has deprecated
    with (folder / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stderr=stderr, stdout=stderr, env=env
        )
    assert process.stdin
    with process.stdin as pipe:
        pipe.write(stdin)
    return process
