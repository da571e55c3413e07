"""What all tests share: a home of their own, so that none of them reads or writes the real one, and
the fixtures of the kit."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytest_plugins = [
    "tests.faults.table",
    "tests.kit.agents",
    "tests.kit.commands",
    "tests.kit.forked_ranks",
    "tests.kit.slurm",
    "tests.kit.sshd",
    "tests.kit.sync_runs",
]
pytest.register_assert_rewrite("tests.kit")


def pytest_configure() -> None:
    """A shell starts a background job with SIGINT and SIGQUIT ignored, and every child inherits
    that.

    Tests send these signals to the programs that they start, so both get their default action back.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported lives as long as the tests, so the garbage collector never looks at it.

    To look costs half of the time in which tests are collected, and a part of each test's time; it
    looks less often than usual at what tests make.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()
        _compute_with_one_thread()


def _compute_with_one_thread() -> None:
    """Have torch use one thread here. Its threads wait for each other by spinning: where several
    workers share few cores, that takes three times the CPU time of the work.

    What tests start is not concerned: its number of threads is that of its environment.
    """
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders whose tests wait longest come first, so that at the end no worker has a few long
    tests left while the others have nothing to do."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/faults/", "tests/program/")))


@pytest.fixture(scope="session", autouse=True)
def home_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the user's ~/.ssh, caches or ssh-agent; what it starts is of this checkout and
    keeps what it compiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("PYTHONPATH", str(ROOT))  # before another checkout that may be installed
        patch.setenv(
            "LC_ALL", "C.UTF-8"
        )  # else what is drawn would depend on the operator's locale
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        patch.delenv(
            "PYTHONDONTWRITEBYTECODE", raising=False
        )  # else each process of the tests compiles all code anew
        yield
