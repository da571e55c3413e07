"""The guard: the agent's parent, and the adopter of everything below it. It waits, and leaves
nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import traceback
from typing import NoReturn

from training.agent.host.system import LINUX
from training.agent.journal import Journal, Reader
from training.agent.layout import LOG
from training.agent.options import Options
from training.agent.ranks import processes
from training.agent.ranks.ranks import signal_name
from training.agent.server import Agent
from training.agent.times import Times
from training.wire.enums import EndReason
from training.wire.events import Ended, Exited, Spawned, decode


def guard(
    options: Options, listener: socket.socket, lock: int, times: Times, preload: tuple[str, ...]
) -> NoReturn:
    """Turn this fork of a follower into the guard. `lock` is held while it lives; `listener` goes
    to the agent."""
    os.setsid()
    _detach({lock, listener.fileno()})
    processes.name("rankboard-guard")
    processes.adopt()
    own = os.getpid()
    agent = os.fork()
    if agent == 0:
        os.close(lock)
        _act(options, listener, times, preload, own)
    listener.close()
    _, status = os.waitpid(agent, 0)
    if not LINUX:
        _end_groups(options.host)
    left = processes.end_descendants(times.last)
    if status:
        _bury(options.host, os.waitstatus_to_exitcode(status), left)
    os._exit(0)


def _detach(kept: set[int]) -> None:
    """Let go of whatever would keep a launcher's pipes or an SSH channel open."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in enumerate((nowhere, nowhere, log)):
        os.dup2(source, target)
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor > 2 and descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:  # the one that listed them
                continue


def _act(
    options: Options,
    listener: socket.socket,
    times: Times,
    preload: tuple[str, ...],
    guard_pid: int,
) -> NoReturn:
    """Be the agent. It adopts as well: when the guard is killed it still finds all that is
    below."""
    status = 1
    try:
        processes.name("rankboard-agent")
        processes.adopt()
        processes.end_with_parent()
        Agent(options, listener, times, preload, guard_pid).run()
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(status)


def _bury(host: int, code: int, left: list[int]) -> None:
    """Write the last record in the place of an agent that could not."""
    journal = Journal(".", host)
    if journal.last and isinstance(journal.last.event, Ended):
        journal.close()
        return
    why = signal_name(code) or _last_words() or f"exit code {code}"
    if not LINUX:
        why += "; processes that had left their rank's group may live on"
    end = Ended(EndReason.AGENT_DIED, why, died=True, left=tuple(left))
    journal.write(journal.last.attempt if journal.last else 0, [end])
    journal.close()


def _last_words() -> str:
    with open(LOG, errors="replace") as file:
        return file.read().strip().rpartition("\n")[2]


def _end_groups(host: int) -> None:
    """Without adoption the ranks are found in the journal."""
    alive: dict[int, int] = {}
    for block in Reader(".", host, 0).blocks():
        for record in map(decode, block.splitlines()):
            match record.event if record else None:
                case Spawned(rank, pid):
                    alive[rank] = pid
                case Exited(rank):
                    alive.pop(rank, None)
    for pid in alive.values():
        processes.send_group(pid, signal.SIGKILL)
