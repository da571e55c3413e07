"""What a host may cost the launcher: bounds on memory, disk and time, in one table."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """The bounds that hold for each host. Whatever goes beyond one costs that host, never another.

    Sizes are bytes, times seconds. docs/reference/limits.md lists them.
    """

    line: int = 4 * MIB
    """One line of a host's records or of an errand's answer. A longer one breaks the connection."""
    banner: int = MIB
    """What its login shell prints before anything is started."""
    answer: int = 64 * MIB
    """The whole answer of an errand."""
    values: int = 2**20
    """JSON values in the whole answer of an errand, or in the list of files that a transfer begins
    with: each takes some 100 bytes of memory."""
    errors: int = 5
    """Errors of one errand's answer that are shown."""
    patience: float = 4.0
    """An errand's whole answer may take this many times as long as its host may be silent; so may
    one line of a journal."""
    install: float = 6 * 3600.0
    """How long the installation of packages on a host may take."""
    listing: int = 16 * MIB
    """The list of files that a transfer begins with."""
    shown: int = 8 * 1024
    """Characters of one line that are kept to be shown; the log files have up to 16 MiB of it."""
    log: int = 64 * MIB
    """Lines of a run that are kept in memory to be shown."""
    unsent: int = 8 * MIB
    """Commands that wait to be sent to a host."""
    write: float = 10.0
    """A write to a host that takes longer breaks the connection."""
    flush: float = 3.0
    """When a connection is closed, the commands that still wait to be sent have this long."""
    noise: int = 10_000
    """Lines of a host that are no records of its own; a host that sends more is lost."""
    gap: int = 2**32
    """Records that a host may leave out between two others."""
    attempts: int = 1000
    """Attempts of a run of which a host may tell a launcher that comes back to it."""
    ahead: int = 16 * MIB
    """Records of an attempt of another launcher that wait until the other hosts tell of the end of
    the one before."""
    clock_step: float = 1.0
    """How far a host's clock may move against the launcher's before its offset is measured anew."""
    busy: float = 600.0
    """A transfer in which less than 64 KiB of files move within this time ends, whatever else its
    host sends."""
    busy_lines: int = 10_000
    """How often a host may say that it is busy before it answers."""
    unexpected: int = 256 * MIB
    """What a host may send beyond twice the checkpoints that its ranks said they saved."""
    path: int = 1024
    """The path of a file that a host sends."""
    depth: int = 32
    """Folders in the path of a file that a host sends."""
    plan: int = 8 * MIB
    """A plan, as a file of a run or as a host keeps it."""
    summary: int = 64 * MIB
    """summary.json of a run."""
    snapshot: int = 128 * MIB
    """The state of a run, as it is kept beside its record."""
    small_file: int = 64 * 1024
    """Any other small file of a run, such as the one that names its launcher."""
    disk_spare: float = 0.05
    """The share of the operator's disk that a transfer leaves free, up to `disk_spare_most`
    bytes."""
    disk_spare_most: int = 2**31


LIMITS = Limits()
