"""Defines what launchers record of a run, as typed events, and the lines of a whole run.

The number of a host is `host`, and `on` on the wire; it may be SESSION if that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Annotated, ClassVar

from msgspec import Meta

from remote.jsonl import EventReader, Reader, load
from training.wire import events as wire
from training.wire.enums import Reach
from training.wire.host_events import HostSample, OutputText, RankSample
from training.wire.rank_events import StepFinished
from training.wire.records import (
    FIRST,
    LARGEST,
    LAST_TIME,
    SECONDS,
    Event,
    Record,
    RecordCodec,
    immutable,
    require,
)
from training.wire.step_block import StepBlock


@immutable
class HostEvent(Event):
    """Base of the events that name a host, or SESSION."""

    wire_keys: ClassVar = {"host": "on"}

    host: int


@immutable
class HostPhaseChanged(HostEvent):
    """The session has entered this phase of reaching a host."""

    wire_name = "reaching"
    phase: Reach


@immutable
class ClockMeasured(HostEvent):
    """The clock of a host was measured: at its Hello, or since."""

    wire_name = "clock"
    offset: float
    """Seconds by which it is ahead of the session's."""

    def validate(self) -> None:
        """Raises: ValueError."""
        require("offset", self.offset, -LAST_TIME, LAST_TIME)


@immutable
class RemarkMade(HostEvent):
    """A remark for the log that is no rank's output: of a login shell, or (SESSION) the session."""

    wire_name = "said"
    text: str


@immutable
class HostSilent(HostEvent):
    """Nothing has come from a host for `seconds`."""

    wire_name = "silent"
    seconds: float

    def validate(self) -> None:
        """Raises: ValueError."""
        require("seconds", self.seconds, *SECONDS)


@immutable
class CheckFinished(HostEvent):
    """A check before the start, of a host or (SESSION) of all together."""

    wire_name = "checked"
    check: str
    outcome: str
    """ok, warning or failed."""
    text: str
    """The result in a few words."""
    advice: str = ""
    """What to do about it."""
    same: tuple[int, ...] = ()
    """The hosts that have this same result, this one too, if there are several."""
    value: str = ""
    """What was measured of the host, where the result says more than that."""
    command: str = ""
    """The command of rankboard that does what is advised, if there is one."""
    helps_to_exclude: bool = False
    """A run without the host would be better off. Older records do not say so."""


@immutable
class ConnectionLost(HostEvent):
    """The connection to a host broke, for this reason; a new one is being opened."""

    wire_name = "parted"
    reason: str


@immutable
class Stalled(Event):
    """These ranks have made no step for `seconds`, longer than `stall_limit` allows; their stacks
    are asked for."""

    ranks: tuple[int, ...]
    seconds: float

    def validate(self) -> None:
        """Raises: ValueError."""
        require("seconds", self.seconds, *SECONDS)


@immutable
class Parsed(Event):
    """How the output of a script is read on a rank.

    It is derived from the rank's text, see `remote.run.output.script_readings`; no record holds it.
    """

    rank: int
    format: str
    """Its name; "" if nothing is read."""
    unread: int = 0
    """Lines that have numbers and were not read."""
    steps: int = 0
    """Steps of the whole run, as the script prints them; 0 if unknown."""
    files: tuple[str, ...] = ()
    """The files that are read for it."""


@immutable
class StacksAsked(Event):
    """The hosts are asked for the stacks of their ranks."""


@immutable
class StallExplained(Event):
    """The stall is understood as well as it will be; `text` names who holds the ranks up."""

    text: str


@immutable
class Attached(Event):
    """A launcher has returned to the run. Records that follow are its own."""


@immutable
class Preparing(Event):
    """These hosts take part in the attempt: they are checked, and ports reserved."""

    hosts: tuple[int, ...]


@immutable
class Prepared(Event):
    """All hosts have answered what the start depends on."""


@immutable
class Starting(Event):
    """The hosts of the attempt are told to start its ranks."""


@immutable
class AttemptFailing(Event):
    """The attempt has failed. The others have a moment for their last words."""

    wire_name = "failing"


@immutable
class Transferring(Event):
    """A transfer of files begins, or is over."""

    what: str
    """`upload` or `fetch`."""
    over: bool = False


@immutable
class Restarted(Event):
    """All ranks start again on these hosts, for this reason: the record's attempt begins."""

    hosts: tuple[int, ...]
    reason: str


@immutable
class DetachRequested(Event):
    """A person has asked to detach: the launcher leaves once the ranks run.

    If `leaving` is False, it cannot.
    """

    wire_name = "leaving"

    leaving: bool = True


@immutable
class Detached(Event):
    """The launcher leaves; the run goes on without it."""

    cut_off: bool = False
    """Nobody asked for it: it hears no host any more, or cannot start the run again."""


@immutable
class HostLost(HostEvent):
    """A host is lost, or was never reached."""

    wire_name = "lost"
    reason: str
    """Why, and what to do."""
    reached: bool
    """Its agent had said Hello."""
    unfit: bool = False
    """The login succeeded, but its python or workdir cannot be used."""


@immutable
class StartRefused(HostEvent):
    """The session does not start the run: a host, or (SESSION) the whole, is not fit for it."""

    wire_name = "refused"
    reason: str
    """Why, and what to do."""


@immutable
class Stopping(Event):
    """All ranks are stopped."""

    reason: str
    by_person: bool
    """Somebody asked for it; else it follows from a failure."""
    now: bool = False
    """Ranks get no time to end by themselves."""
    elsewhere: bool = False
    """The person asked another launcher."""
    final: bool = False
    """The run is not restarted."""


@immutable
class SessionClosing(Event):
    """Nothing is left to run: every agent is told to end."""

    wire_name = "closing"


@immutable
class SessionClosed(Event):
    """The session's last record: nothing more comes, every host's agent has ended or is lost."""

    wire_name = "closed"


LAUNCHER_EVENTS = (
    HostPhaseChanged,
    ClockMeasured,
    RemarkMade,
    CheckFinished,
    HostSilent,
    ConnectionLost,
    HostLost,
    StartRefused,
    Stalled,
    StacksAsked,
    StallExplained,
    Attached,
    Preparing,
    Prepared,
    Starting,
    AttemptFailing,
    Transferring,
    Stopping,
    Restarted,
    DetachRequested,
    Detached,
    SessionClosing,
    SessionClosed,
)
EVENTS: tuple[type[Event], ...] = (*wire.EVENTS, *LAUNCHER_EVENTS)
"""All that records hold."""

_TIME = Annotated[float, Meta(ge=0, le=LAST_TIME)]
_NUMBER = Annotated[int, Meta(le=LARGEST)]
_RECORD_KEYS = dict.fromkeys(("host", "attempt", "seq"), _NUMBER) | {"time": _TIME}
_read_text = Reader(OutputText, _RECORD_KEYS)
_read_step = Reader(StepFinished, {"time": _TIME}, StepFinished.bounds)
_read_frequent = EventReader((StepBlock, HostSample, RankSample), _RECORD_KEYS)
"""Reads events that come by the million."""
_figures_of = attrgetter(*(field.name for field in fields(StepFinished)))
_lines = RecordCodec(EVENTS, load)
_lines_of_hosts = RecordCodec(wire.EVENTS, load)
encode = _lines.encode
fault = _lines.fault
from_object = _lines.from_object
to_object = _lines.to_object


def decode(line: str | bytes) -> Record | None:
    """See `training.wire.records.RecordCodec.decode`."""
    record = _decode_frequent(line)
    return _lines.decode(line) if record is None else _validate(record)


def decode_from_host(line: bytes) -> Record | None:
    """Do as `decode`, but only with what an agent records: a host cannot speak as a launcher."""
    record = _decode_frequent(line)
    return _lines_of_hosts.decode(line) if record is None else _validate(record)


def decode_packed(line: bytes) -> Record | None:
    """Do as `decode`, but leave a block of steps packed: whoever unpacks it finds out whether it is
    damaged."""
    record = _decode_frequent(line)
    if record is None:
        return _lines.decode(line)
    return record if isinstance(record.event, StepBlock) else _validate(record)


def _decode_frequent(line: str | bytes) -> Record | None:
    """Return the record of an event that comes often, of which only the bounds are checked. None if
    the line needs another look."""
    values = _read_text.read(line)  # as most lines are of it
    if values is not None:
        event: Event = OutputText(values.rank, values.stream, values.text)
    else:
        values_and_event = _read_frequent.read(line)
        if values_and_event is None:
            return None
        values, event = values_and_event
    if values.seq == FIRST:  # it tells its format, too
        return None
    return Record(values.host, values.attempt, values.seq, values.time, event)


def _validate(record: Record) -> Record | None:
    """Return a record of `_decode_frequent` if its event is valid."""
    if isinstance(record.event, StepBlock | HostSample):  # those with more to check than bounds
        try:
            record.event.validate()
        except ValueError:
            return None
    return record


def expand(record: Record) -> Sequence[Record]:
    """See `training.wire.events.expand`."""
    return wire.expand(record, _reported)


def _reported(line: str) -> tuple[Event, float | None] | None:
    """See `training.wire.events.parse_report`."""
    values = _read_step.read(line)
    if values is None:
        return wire.parse_report(line, load)
    return StepFinished(*_figures_of(values)), values.time
