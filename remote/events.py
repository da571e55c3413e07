"""What launchers say of a run, as typed events, and the lines of a whole run: its hosts' too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Annotated

from msgspec import Meta

from remote.jsonl import Reader, load
from training.wire import events as wire
from training.wire.enums import Reach
from training.wire.events import EVENTS as HOST_EVENTS
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


@immutable
class Reaching(Event):
    """The session is at this phase of reaching host number `on`."""

    on: int
    phase: Reach


@immutable
class Clock(Event):
    """The clock of host number `on` is ahead of the session's by `offset` seconds: measured at its
    Hello, or since."""

    on: int
    offset: float

    def validate(self) -> None:
        """Raises: ValueError."""
        require("offset", self.offset, -LAST_TIME, LAST_TIME)


@immutable
class Said(Event):
    """Narration that is no rank's output: what a login shell printed, or the session says. `on` may
    be SESSION."""

    on: int
    text: str


@immutable
class Silent(Event):
    """Nothing has come from host number `on` for `seconds`."""

    on: int
    seconds: float

    def validate(self) -> None:
        """Raises: ValueError."""
        require("seconds", self.seconds, *SECONDS)


@immutable
class Checked(Event):
    """A check before the start, of host number `on` (or SESSION: of all together). `outcome` is ok,
    warning or failed; `text` what was found, in a few words; `advice` what to do about it. `same`:
    the hosts of which all this was found, this one too, where there are several."""

    on: int
    check: str
    outcome: str
    text: str
    advice: str = ""
    same: tuple[int, ...] = ()


@immutable
class Parted(Event):
    """The line to host number `on` broke, for this `reason`; a new one is being opened."""

    on: int
    reason: str


@immutable
class Stalled(Event):
    """These ranks have made no step for `seconds`, ten times what a step takes them; their stacks
    are asked for."""

    ranks: tuple[int, ...]
    seconds: float

    def validate(self) -> None:
        """Raises: ValueError."""
        require("seconds", self.seconds, *SECONDS)


@immutable
class Parsed(Event):
    """What a user's own program prints on a rank is read as `format` ("": nothing is read).
    `unread` of its lines bear numbers and were not read. `steps` are those of the whole run as it
    prints them, 0 if unknown. `files` are those that are read for it. Derived from the rank's text,
    see `remote.run.output.script_readings`; no record holds it."""

    rank: int
    format: str
    unread: int = 0
    steps: int = 0
    files: tuple[str, ...] = ()


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
    """The hosts numbered `hosts` take part in the attempt: they are checked, and ports reserved."""

    hosts: tuple[int, ...]


@immutable
class Prepared(Event):
    """All hosts have answered what the start depends on."""


@immutable
class Starting(Event):
    """The hosts of the attempt are told to start its ranks."""


@immutable
class Failing(Event):
    """The attempt has failed. The others have a moment for their last words."""


@immutable
class Transferring(Event):
    """A transfer of files, `upload` or `fetch`, begins, or is `over`."""

    what: str
    over: bool = False


@immutable
class Restarted(Event):
    """All ranks start again on the hosts numbered `hosts`, for this `reason`: the record's attempt
    begins."""

    hosts: tuple[int, ...]
    reason: str


@immutable
class Leaving(Event):
    """A person has asked to detach: the launcher leaves once the ranks run. False: it cannot."""

    leaving: bool = True


@immutable
class Detached(Event):
    """The launcher leaves; the run goes on without it. `cut_off`: nobody asked for it; the launcher
    hears no host any more, or cannot start the run again."""

    cut_off: bool = False


@immutable
class Lost(Event):
    """Host number `on` is lost, or was never reached: `reason` says why and what to do. `reached`:
    its agent had said Hello. `unfit`: the login succeeded, but its python or workdir cannot be
    used."""

    on: int
    reason: str
    reached: bool
    unfit: bool = False


@immutable
class Refused(Event):
    """The session does not start the run: host number `on` (or SESSION) is not fit for it, `reason`
    says why and what to do."""

    on: int
    reason: str


@immutable
class Stopping(Event):
    """All ranks are stopped. `by_person`: somebody asked for it; else it follows from a failure.

    `now`: ranks get no time to end by themselves. `elsewhere`: the person asked another launcher.
    `final`: the run is not restarted.
    """

    reason: str
    by_person: bool
    now: bool = False
    elsewhere: bool = False
    final: bool = False


@immutable
class Closing(Event):
    """Nothing is left to run: every agent is told to end."""


@immutable
class Closed(Event):
    """The session's last record: nothing more comes, every host's agent has ended or is lost."""


LAUNCHER_EVENTS = (
    *(
        Reaching,
        Clock,
        Said,
        Checked,
        Silent,
        Parted,
        Lost,
        Refused,
        Stalled,
        StacksAsked,
        StallExplained,
        Attached,
        Preparing,
        Prepared,
        Starting,
        Failing,
        Transferring,
        Stopping,
        Restarted,
        Leaving,
        Detached,
        Closing,
        Closed,
    ),
)
EVENTS: tuple[type[Event], ...] = (*HOST_EVENTS, *LAUNCHER_EVENTS)
"""All that records hold."""

_TIME = Annotated[float, Meta(ge=0, le=LAST_TIME)]
_NUMBER = Annotated[int, Meta(le=LARGEST)]
_read_text = Reader(
    wire.OutputText, dict.fromkeys(("host", "attempt", "seq"), _NUMBER) | {"time": _TIME}
)
_read_step = Reader(wire.StepFinished, {"time": _TIME}, wire.STEP_BOUNDS)
_figures_of = attrgetter(*(field.name for field in fields(wire.StepFinished)))
_lines = RecordCodec(EVENTS, load)
encode = _lines.encode
fault = _lines.fault
from_object = _lines.from_object
to_object = _lines.to_object


def decode(line: str | bytes) -> Record | None:
    """See `training.wire.records.RecordCodec.decode`."""
    said = _read_text.read(line)  # as most lines are of it
    if said is None or said.seq == FIRST:
        return _lines.decode(line)
    text = wire.OutputText(said.rank, said.stream, said.text)
    return Record(said.host, said.attempt, said.seq, said.time, text)


def expand(record: Record) -> Sequence[Record]:
    """See `training.wire.events.expand`."""
    return wire.expand(record, _reported)


def _reported(line: str) -> tuple[Event, float | None] | None:
    """See `training.wire.events.parse_report`."""
    said = _read_step.read(line)
    if said is None:
        return wire.parse_report(line, load)
    return wire.StepFinished(*_figures_of(said)), said.time
