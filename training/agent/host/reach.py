"""Sees whether this host can reach addresses of the web, through its proxies if it has some.

The addresses are tried by a process of its own. A name that does not resolve may hold up a thread
for much longer than anybody waits, and the agent forks, which it must not do beside a thread.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    import queue
    from collections.abc import Mapping, Sequence

MARGIN = 2.0
"""Seconds in which the process starts and ends, besides those in which it tries the addresses."""


def unreachable(
    addresses: Sequence[str], seconds: float, proxies: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Try all addresses at once, with these variables besides this process's own.

    Return nothing if one of them answers, whatever it says; otherwise the name of each server, and
    why it cannot be reached, "" if it did not answer within `seconds`.
    """
    import subprocess

    # -I: neither PYTHONPATH nor the user's packages decide what the process imports.
    try_command = [sys.executable, "-I", os.path.abspath(__file__), str(seconds), *addresses]
    try:
        process = subprocess.run(
            try_command,
            env={**os.environ, **proxies},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds + MARGIN,
        )
        return tuple((str(server), str(reason)) for server, reason in json.loads(process.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):  # then nothing is known
        return ()


def main(seconds: float, addresses: Sequence[str]) -> None:
    """Try the addresses, and print what `unreachable` returns."""
    import queue
    import threading
    import time

    answers: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
    for address in addresses:
        thread_arguments = (address, seconds, answers)
        threading.Thread(target=_try_address, args=thread_arguments, daemon=True).start()
    failure_by_server = {_server_name(address): "" for address in addresses}
    deadline = time.monotonic() + seconds
    for _ in addresses:
        try:
            address, error = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if error is None:
            failure_by_server = {}
            break
        failure_by_server[_server_name(address)] = error
    print(json.dumps(list(failure_by_server.items())), flush=True)  # noqa: T201
    os._exit(0)  # a thread may still be waiting


def _server_name(address: str) -> str:
    return address.split("/")[2]


def _try_address(
    address: str, seconds: float, answers: queue.SimpleQueue[tuple[str, str | None]]
) -> None:
    """Put the address, and why it cannot be reached: None if it can, "" if it does not answer."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(address, method="HEAD"), timeout=seconds).close()
    except HTTPError:  # it has answered
        answers.put((address, None))
    except OSError as error:
        reason = getattr(error, "reason", error)
        is_late = isinstance(reason, TimeoutError)
        answers.put((address, "" if is_late else getattr(reason, "strerror", None) or str(reason)))
    except Exception as error:  # noqa: BLE001 - whatever a strange answer makes of it
        answers.put((address, repr(error)))
    else:
        answers.put((address, None))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
