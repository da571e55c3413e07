"""Forks this process."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

HANDLED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGCHLD,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""The signals that a fork handles by default, whatever this process does."""


def fork_process(work: Callable[[], int]) -> int:
    """Fork this process to do the work, and return the pid.

    The fork exits with what `work` returns, or with 1 if it raises. No signal reaches a handler of
    this process in the fork.
    """
    # Blocked until the fork has handlers of its own: a signal in between would run ours there.
    signal_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        return os.fork() or _run_and_exit(work)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)


def _run_and_exit(work: Callable[[], int]) -> NoReturn:
    exit_code = 1
    try:
        signal.set_wakeup_fd(-1)
        handle_by_default()
        exit_code = work()
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - printed, as the interpreter would
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(exit_code)


def handle_by_default() -> None:
    """Make this process handle signals as a new program does."""
    for signal_number in HANDLED:
        signal.signal(signal_number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
