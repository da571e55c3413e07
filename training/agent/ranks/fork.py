"""Forks this process."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable


def fork(work: Callable[[], int]) -> int:
    """The pid of a fork that does the work and exits with what it returns, or with 1 where it
    raises.

    The fork handles signals by default, and none reaches it before.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            _handle_by_default()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            code = work()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException:  # noqa: BLE001 - printed, as the interpreter would
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _handle_by_default() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
