"""The folder of a long-living lab: its state, as others may read and change it, and the lock that
says whether it is up.

The lab's daemon holds the lock as long as it lives, so a state that a dead one has left is never
taken for a living lab's, and the process numbers in it are used only while they are the lab's own.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from remote.lab import quota, relay
from remote.lab.lab import Lab, LabState
from remote.lab.spec import LabError, LabSpec, flag
from training.file_locks import try_lock, wait_for_lock
from training.wire.codec import decoder_of
from training.wire.jsonl import dumps
from training.writing import make_private_folders

ENDING = 15.0
"""Seconds that a daemon has to end before it is killed."""
LETTING_GO = 5.0
"""Seconds in which the processes of a lab whose daemon was killed have ended, so that its folder
can be removed."""


@dataclass(frozen=True)
class Standing:
    """A lab that is up. The process `pid` holds it."""

    pid: int
    spec: LabSpec
    lab: LabState


_read = decoder_of(Standing)


class Folder:
    """The folder of the lab called `name`, whether it is up or not."""

    def __init__(self, name: str) -> None:
        """Raises: LabError, if the name is not allowed."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            raise LabError(f"--name {name!r}: give letters, digits, - and _")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.name, self.path = name, cache.absolute() / "rankboard" / "labs" / name
        self._state = self.path / relay.STATE

    @property
    def flag(self) -> str:
        """The flag that selects this lab; "" for the default lab."""
        return flag(self.name)

    @property
    def is_up(self) -> bool:
        """Whether there is a daemon that holds the lab."""
        return relay.held(str(self.path))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of the lab, with an empty folder. Raises: LabError, if another daemon holds
        it."""
        lock = self._lock()
        try:
            self._clear()
            yield
        finally:
            self._clear()
            (self.path / relay.LOCK).unlink()
            with suppress(OSError):  # the next lab may use it already
                self.path.rmdir()
            os.close(lock)

    def _clear(self) -> None:
        for leftover in self.path.iterdir():
            if leftover.name != relay.LOCK:
                _remove(leftover)

    def _lock(self) -> int:
        while True:
            make_private_folders(self.path)
            try:
                lock = os.open(self.path / relay.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:  # another process has just removed the folder
                continue
            if not try_lock(lock):
                os.close(lock)
                raise LabError(
                    f"the lab {self.name!r} is up already (rankboard lab status{self.flag} shows "
                    "it): "
                    f"stop it with rankboard lab down{self.flag}, or give this one another --name"
                )
            if os.fstat(lock).st_nlink:
                return lock
            os.close(lock)  # whoever removed the lab that was here has removed this file with it

    def publish(self, lab: Lab) -> None:
        """Write the state of the lab for other processes."""
        written = self._state.with_suffix(".new")
        written.write_text(dumps(Standing(os.getpid(), lab.spec, lab.state)))
        written.replace(self._state)

    @contextmanager
    def lab(self) -> Iterator[Lab]:
        """The lab. Meanwhile no other process can change it. Raises: LabError, if none is up."""
        with self._opened() as (file, standing):
            lab = Lab(standing.spec, standing.lab)
            try:
                yield lab
            finally:
                if lab.state != standing.lab:
                    file.seek(0)
                    file.write(dumps(replace(standing, lab=lab.state)))
                    file.truncate()

    @contextmanager
    def _opened(self) -> Iterator[tuple[TextIO, Standing]]:
        try:
            file = self._state.open("r+")
        except OSError:
            raise self._none() from None
        with file:
            wait_for_lock(file)
            if not self.is_up:
                raise self._none()
            yield file, _read(json.loads(file.read()))

    def _none(self) -> LabError:
        if self.is_up:
            return LabError(
                f"the lab {self.name!r} is just going up or down: try again in a moment"
            )
        return LabError(f"no lab {self.name!r} is up: start it with rankboard lab up{self.flag}")

    def down(self) -> None:
        """End the lab, or remove what a killed lab has left. Raises: LabError, if there is
        neither."""
        if self.is_up:
            self._end()
        elif not self.path.exists():
            raise self._none()
        if self.path.exists():
            with self.held():
                base = quota.base()
                if base:
                    quota.sweep(base)

    def _end(self) -> None:
        with self._opened() as (_, standing), suppress(ProcessLookupError):
            daemon = os.pidfd_open(standing.pid)
            try:
                if not self.is_up:  # the number may be another process's by now
                    return
                signal.pidfd_send_signal(daemon, signal.SIGTERM)
                if not select.select([daemon], [], [], ENDING)[0]:
                    signal.pidfd_send_signal(daemon, signal.SIGKILL)
                    select.select([daemon], [], [], ENDING)
            finally:
                os.close(daemon)


def _remove(path: Path) -> None:
    """Remove a file or folder, in which a process that has just been killed may still have written.
    Raises: OSError."""
    deadline = time.monotonic() + LETTING_GO
    while True:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
