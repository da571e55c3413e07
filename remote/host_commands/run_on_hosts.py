"""Run a command on all hosts at once, and collect their answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from remote.cluster.hosts import Host
from remote.concurrently import map_within
from remote.host_commands.answer_reader import AnswerReader, AnswerTooLong, read_until_end
from remote.limits import LIMITS, Limits
from remote.transport import Channel, HostCommand, NoProgress, Transport, Unreachable
from remote.transport.start_dialog import last_line
from training.agent import WHOLE
from training.wire.host_replies import codec
from training.wire.line_cutter import LineTooLong


@dataclass(frozen=True)
class HostAnswer:
    """What a host answered to a command."""

    host: Host
    objects: tuple[dict[str, Any], ...] = ()
    """In the order in which they came."""
    error: str = ""
    """Why objects are missing; "" if all came. It begins with the name of the host."""
    moment: float = 0.0
    """When the first bytes came, by this machine's clock. A time in the answer was taken just
    before."""
    completed: float = 0.0
    """When the last bytes came."""

    @cached_property
    def replies(self) -> list[Any]:
        """Return the typed objects of the answer (see `training.wire.host_replies`), without those
        that this version does not know."""
        values = map(codec.value, self.objects)
        return [value for value in values if value is not None]


def run_on_hosts(
    transport: Transport,
    hosts: Sequence[Host],
    verb: str,
    command_words: Callable[[Host], Iterable[str]] = lambda _: (),
    *,
    extra_seconds: float = 0.0,
    seconds_in_all: float = math.inf,
    limits: Limits = LIMITS,
) -> list[HostAnswer]:
    """Run a command in the workdir of each host, and return the answers in the order of the hosts.

    `command_words` gives the arguments of the command on a host. A reached host may be silent for
    its timeout and `extra_seconds`; after `seconds_in_all` seconds no host is waited for. An answer
    beyond the `limits` is an error of that host.
    """

    def ask_host(host: Host) -> HostAnswer:
        command = HostCommand((verb, host.workdir, *command_words(host)))
        try:
            channel = transport.open(host, command, NoProgress())
            return _read_answer(channel, host, host.timeout + extra_seconds, limits)
        except Unreachable as error:
            return HostAnswer(host, error=str(error))
        except Exception as error:  # noqa: BLE001 - our own mistake must not hide the other answers
            return HostAnswer(host, error=f"{host.name}: rankboard itself failed: {error!r}")

    # A thread per host: most of the time goes into waiting for logins.
    answers_by_index = map_within(ask_host, hosts, seconds_in_all)
    for host_index, host in enumerate(hosts):
        late_answer = HostAnswer(host, error=f"{host.name}: no answer within {seconds_in_all:g} s")
        answers_by_index.setdefault(host_index, late_answer)
    return [answers_by_index[host_index] for host_index in range(len(hosts))]


def _read_answer(channel: Channel, host: Host, silence_limit: float, limits: Limits) -> HostAnswer:
    answer_reader = AnswerReader(limits)
    objects: list[dict[str, Any]] = []
    error_text = ""
    try:
        for block in read_until_end(channel, silence_limit, silence_limit * limits.patience):
            objects += answer_reader.take(block)
    except TimeoutError as late_error:
        error_text = f"{late_error}; if it is only slow, raise timeout in {host.hosts_file}"
    except (AnswerTooLong, LineTooLong) as too_long:
        error_text = str(too_long)
    except OSError as broken_error:
        error_text = f"the connection broke: {broken_error}"
    finally:
        stderr = channel.close()
    if error_text:
        return HostAnswer(host, error=f"{host.name}: {error_text}")
    # A host ends its answer with this line; a connection that just ends may have lost the rest.
    if WHOLE not in objects:
        error_text = last_line(stderr) or "its answer broke off"
    # what the host itself says of its error explains most
    error_text = _join_errors(objects, limits) or error_text
    answer_objects = [item for item in objects if item != WHOLE and "error" not in item]
    if error_text:
        error_text = f"{host.name}: {error_text}"
    return HostAnswer(host, tuple(answer_objects), error_text, answer_reader.moment, time.time())


def _join_errors(objects: Iterable[dict[str, Any]], limits: Limits) -> str:
    """Return the errors that a host reports, not all of them and none at length."""
    error_texts = [str(item["error"])[: limits.shown] for item in objects if "error" in item]
    hidden_errors = error_texts[limits.errors :]
    if hidden_errors:
        error_texts[limits.errors :] = [f"and {len(hidden_errors)} more errors"]
    return "; ".join(error_texts)
