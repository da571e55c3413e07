"""Runs errands on hosts, all at once, and collects the answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from remote.cluster.hosts import Host
from remote.concurrently import map_within
from remote.host_commands.answer_reader import AnswerReader, AnswerTooLong, read_until_end
from remote.limits import LIMITS, Limits
from remote.transport import HostCommand, NoProgress, Transport, Unreachable
from remote.transport.start_dialog import last_line
from training.agent import WHOLE
from training.wire.host_replies import codec
from training.wire.line_cutter import LineTooLong


@dataclass(frozen=True)
class HostAnswer:
    """The answer of a host: `objects` in order, and `error`, why there are none or not all of them
    ("" where all is well). `moment` is when its first bytes came, by this machine's clock: a time
    in the answer was taken just before. `completed` is when the last ones came."""

    host: Host
    objects: tuple[dict[str, Any], ...] = ()
    error: str = ""
    moment: float = 0.0
    completed: float = 0.0


def run_on_hosts(
    transport: Transport,
    hosts: Sequence[Host],
    verb: str,
    words: Callable[[Host], Iterable[str]] = lambda _: (),
    longer: float = 0.0,
    within: float = math.inf,
) -> list[HostAnswer]:
    """Run an errand on each host in its own workdir; the answers, whose errors name the host.

    `longer`: seconds beyond its timeout that a host may take to answer. `within`: seconds after
    which no host is waited for.
    """

    def errand(host: Host) -> HostCommand:
        return HostCommand((verb, host.workdir, *words(host)))

    def patience(host: Host) -> float:
        return host.timeout + longer

    return perform(transport, hosts, errand, patience, within=within)


def typed_objects(objects: Iterable[dict[str, Any]]) -> list[Any]:
    """The typed objects of an answer (see `training.wire.host_replies`). What this version does not
    know is left out."""
    return [value for value in map(codec.value, objects) if value is not None]


def perform(
    transport: Transport,
    hosts: Sequence[Host],
    errand: Callable[[Host], HostCommand],
    patience: Callable[[Host], float] = lambda _: math.inf,
    limits: Limits = LIMITS,
    within: float = math.inf,
) -> list[HostAnswer]:
    """Run an errand on each host, all at once; the answers, in the order of the hosts.

    `patience`: seconds that a host may be silent once it is reached. `within`: seconds after which
    no host is waited for. An answer beyond the `limits` is an error of that host.
    """

    def work(host: Host) -> HostAnswer:
        try:
            return _perform(transport, host, errand(host), patience(host), limits)
        except Exception as error:  # noqa: BLE001 - our own mistake must not hide the other answers
            return HostAnswer(host, error=f"{host.name}: rankboard itself failed: {error!r}")

    answers = map_within(work, hosts, within)
    late = f"no answer within {within:g} s"
    return [
        answers.get(index) or HostAnswer(host, error=f"{host.name}: {late}")
        for index, host in enumerate(hosts)
    ]


def _perform(
    transport: Transport,
    host: Host,
    errand: HostCommand,
    patience: float,
    limits: Limits,
) -> HostAnswer:
    try:
        channel = transport.open(host, errand, NoProgress())
    except Unreachable as error:
        return HostAnswer(host, error=str(error))
    taken = AnswerReader(limits)
    objects: list[dict[str, Any]] = []
    try:
        for block in read_until_end(channel, patience, patience * limits.patience):
            objects += taken.take(block)
    except TimeoutError as error:
        return HostAnswer(
            host,
            error=f"{host.name}: {error}; if it is only slow, raise timeout in {host.hosts_file}",
        )
    except (AnswerTooLong, LineTooLong) as error:
        return HostAnswer(host, error=f"{host.name}: {error}")
    except OSError as error:
        return HostAnswer(host, error=f"{host.name}: the connection broke: {error}")
    finally:
        said = channel.close()
    errors = [str(found["error"])[: limits.shown] for found in objects if "error" in found]
    if len(errors) > limits.errors:
        errors[limits.errors :] = [f"and {len(errors) - limits.errors} more errors"]
    if not errors and WHOLE not in objects:
        errors = [last_line(said) or "its answer broke off"]
    answered = tuple(found for found in objects if found != WHOLE and "error" not in found)
    complaint = f"{host.name}: {'; '.join(errors)}" if errors else ""
    return HostAnswer(host, answered, complaint, taken.moment, time.time())
