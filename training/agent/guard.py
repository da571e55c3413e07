"""The guard: the parent of the agent, and the subreaper of all processes below it. It waits for the
agent to exit, and kills what is left."""

from __future__ import annotations

import os
import signal
import socket
import traceback
from typing import NoReturn

from training.agent.host import processes
from training.agent.host.system import LINUX
from training.agent.journal import JournalReader, write_last
from training.agent.layout import LOG
from training.agent.options import AgentOptions
from training.agent.ranks.launch import Preload
from training.agent.server import AgentServer
from training.agent.times import AgentTimes
from training.wire.enums import EndReason
from training.wire.events import decode
from training.wire.host_events import AgentEnded, Exited, Spawned


def guard(
    options: AgentOptions,
    listener: socket.socket,
    lock_descriptor: int,
    times: AgentTimes,
    preload: Preload,
) -> NoReturn:
    """Turn this fork of a follower into the guard. The guard holds `lock` as long as it lives; the
    agent gets `listener`."""
    os.setsid()  # a signal to the launcher's terminal or SSH session must not end the run
    _detach({lock_descriptor, listener.fileno()})
    processes.set_process_name("rankboard-guard")
    processes.become_subreaper()
    guard_pid = os.getpid()
    agent_pid = os.fork()
    if agent_pid == 0:
        # A flock ends with the last descriptor of its file, so only the guard may have one.
        os.close(lock_descriptor)
        _run_agent(options, listener, times, preload, guard_pid)
    listener.close()
    # Whatever the agent dies of, nothing of the run may stay behind on this host.
    _, wait_status = os.waitpid(agent_pid, 0)
    if not LINUX:
        _kill_rank_groups(options.host)
    surviving_pids = processes.end_descendants(times.last)
    if wait_status:
        _write_last_record(options.host, os.waitstatus_to_exitcode(wait_status), surviving_pids)
    # No clean-up of Python: buffers and exit handlers are those of the follower.
    os._exit(0)


def _detach(needed_descriptors: set[int]) -> None:
    """Close all descriptors that would keep the pipes of a launcher or an SSH channel open."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    log_descriptor = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    processes.redirect_output(null_device, log_descriptor, needed_descriptors)


def _run_agent(
    options: AgentOptions,
    listener: socket.socket,
    times: AgentTimes,
    preload: Preload,
    guard_pid: int,
) -> NoReturn:
    """Run the agent. It is a subreaper, too: if the guard is killed, the agent still finds all
    processes below it."""
    exit_status = 1
    try:
        processes.set_process_name("rankboard-agent")
        processes.become_subreaper()
        processes.end_with_parent()
        AgentServer(options, listener, times, preload, guard_pid).run()
        exit_status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(exit_status)


def _write_last_record(host: int, exit_code: int, surviving_pids: list[int]) -> None:
    """Write the last record in place of an agent that died."""
    reason = processes.signal_name(exit_code) or _last_log_line() or f"exit code {exit_code}"
    if not LINUX:
        reason += "; processes that left the process group of their rank may still run"
    write_last(".", host, AgentEnded(EndReason.AGENT_DIED, reason, left=tuple(surviving_pids)))


def _last_log_line() -> str:
    """Return the last line of the agent's log."""
    with open(LOG, errors="replace") as file:
        return file.read().strip().rpartition("\n")[2]


def _kill_rank_groups(host: int) -> None:
    """Kill the ranks that the journal names. Without a subreaper, no other way finds them."""
    pid_by_rank: dict[int, int] = {}
    for block in JournalReader(".", host, 0).blocks():
        for record in map(decode, block.splitlines()):
            match record.event if record else None:
                case Spawned(rank, pid):
                    pid_by_rank[rank] = pid
                case Exited(rank):
                    pid_by_rank.pop(rank, None)
    for pid in pid_by_rank.values():
        processes.send_group(pid, signal.SIGKILL)
