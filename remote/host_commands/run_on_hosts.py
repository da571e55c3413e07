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
    words: Callable[[Host], Iterable[str]] = lambda _: (),
    *,
    extra_seconds: float = 0.0,
    within: float = math.inf,
    limits: Limits = LIMITS,
) -> list[HostAnswer]:
    """Run a command in the workdir of each host, and return the answers in the order of the hosts.

    `words` gives the arguments of the command on a host. A reached host may be silent for its
    timeout and `extra_seconds`; after `within` seconds no host is waited for. An answer beyond the
    `limits` is an error of that host.
    """

    def ask(host: Host) -> HostAnswer:
        command = HostCommand((verb, host.workdir, *words(host)))
        try:
            channel = transport.open(host, command, NoProgress())
            return _read_answer(channel, host, host.timeout + extra_seconds, limits)
        except Unreachable as error:
            return HostAnswer(host, error=str(error))
        except Exception as error:  # noqa: BLE001 - our own mistake must not hide the other answers
            return HostAnswer(host, error=f"{host.name}: rankboard itself failed: {error!r}")

    answers = map_within(ask, hosts, within)
    for index, host in enumerate(hosts):
        late = HostAnswer(host, error=f"{host.name}: no answer within {within:g} s")
        answers.setdefault(index, late)
    return [answers[index] for index in range(len(hosts))]


def _read_answer(channel: Channel, host: Host, patience: float, limits: Limits) -> HostAnswer:
    reader = AnswerReader(limits)
    objects: list[dict[str, Any]] = []
    error = ""
    try:
        for block in read_until_end(channel, patience, patience * limits.patience):
            objects += reader.take(block)
    except TimeoutError as late:
        error = f"{late}; if it is only slow, raise timeout in {host.hosts_file}"
    except (AnswerTooLong, LineTooLong) as too_long:
        error = str(too_long)
    except OSError as broken:
        error = f"the connection broke: {broken}"
    finally:
        stderr = channel.close()
    if error:
        return HostAnswer(host, error=f"{host.name}: {error}")
    if WHOLE not in objects:
        error = last_line(stderr) or "its answer broke off"
    # what the host itself says of its error explains most
    error = _join_errors(objects, limits) or error
    answered = [item for item in objects if item != WHOLE and "error" not in item]
    if error:
        error = f"{host.name}: {error}"
    return HostAnswer(host, tuple(answered), error, reader.moment, time.time())


def _join_errors(objects: Iterable[dict[str, Any]], limits: Limits) -> str:
    """Return the errors that a host reports, not all of them and none at length."""
    errors = [str(item["error"])[: limits.shown] for item in objects if "error" in item]
    hidden = errors[limits.errors :]
    if hidden:
        errors[limits.errors :] = [f"and {len(hidden)} more errors"]
    return "; ".join(errors)
