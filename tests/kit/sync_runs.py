"""The fixtures `ran` and `ran_on_gpus`: all cases of the tests that were asked for, run by
`sync_ranks` in one go, below the process that forks all ranks."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.forked_ranks import Forker
from tests.kit.training_ranks import alive, kill
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
    yield from running(request, "ran", tmp_path_factory, "gloo")


@pytest.fixture(scope="session")
def ran_on_gpus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ran]:
    """What came out of a case on GPUs, one for each rank."""
    yield from running(request, "ran_on_gpus", tmp_path_factory, "nccl")


def chosen(request: pytest.FixtureRequest, fixture: str) -> list[Case]:
    """Return the cases of all tests of this session that use the fixture, each once."""
    from tests.kit.sync_ranks import Case

    used = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and fixture in item.fixturenames
    ]
    parameters = [value for item in used for value in item.callspec.params.values()]
    return list(dict.fromkeys(value for value in parameters if isinstance(value, Case)))


def running(
    request: pytest.FixtureRequest,
    fixture: str,
    tmp_path_factory: pytest.TempPathFactory,
    backend: str,
) -> Iterator[Ran]:
    """Runs the cases, once for all of pytest's workers."""
    from tests.kit.sync_ranks import ENDED, files, outcomes

    cases = chosen(request, fixture)
    base, shared = tmp_path_factory.getbasetemp(), "PYTEST_XDIST_WORKER" in os.environ
    folder = (base.parent if shared else base) / f"sync-{backend}"
    pid = started(request, folder, backend, cases)

    def ended() -> bool:
        return (folder / ENDED).exists() or (pid is not None and not alive(pid))

    def result(case: Case) -> list[Outcome]:
        while not all(file.exists() for file in files(folder, case)) and not ended():
            time.sleep(0.01)
        found = [outcome for outcome in outcomes(folder, case) if outcome]
        errors = "\n".join(outcome.error for outcome in found if outcome.error)
        assert not errors, f"{case}:\n{errors}"
        assert len(found) == case.world, (
            f"{case}: a rank has died\n{(folder / 'stderr').read_text()}"
        )
        return found

    yield result
    if pid is not None:  # a worker that has no more tests of its own still serves the others
        try:
            wait(lambda: not shared or ended(), "the cases' end", PATIENCE * len(cases))
        finally:
            if alive(pid):
                kill(pid)
            request.getfixturevalue("forked").ask(do="wait", pids=[pid])


def started(
    request: pytest.FixtureRequest, folder: Path, backend: str, cases: list[Case]
) -> int | None:
    """The process that runs the cases; None where another worker has started it."""
    from tests.kit.sync_ranks import CASES

    try:
        folder.mkdir()
    except FileExistsError:
        return None
    (folder / CASES).write_bytes(pickle.dumps(cases))
    forker: Forker = request.getfixturevalue("forked")  # other workers start none for this
    return int(forker.ask(do="cases", folder=str(folder), backend=backend, patience=PATIENCE))
