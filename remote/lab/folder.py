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

    def __init__(self, lab_name: str) -> None:
        """Raises: LabError, if the name is not allowed."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", lab_name):
            raise LabError(f"--name {lab_name!r}: give letters, digits, - and _")
        cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.name = lab_name
        self.path = cache_folder.absolute() / "rankboard" / "labs" / lab_name
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
        lock_file = self._lock()
        try:
            self._clear()
            yield
        finally:
            self._clear()
            (self.path / relay.LOCK).unlink()
            with suppress(OSError):  # the next lab may use it already
                self.path.rmdir()
            os.close(lock_file)

    def _clear(self) -> None:
        for leftover in self.path.iterdir():
            if leftover.name != relay.LOCK:
                _remove(leftover)

    def _lock(self) -> int:
        while True:
            make_private_folders(self.path)
            try:
                lock_file = os.open(
                    self.path / relay.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
                )
            except FileNotFoundError:  # another process has just removed the folder
                continue
            if not try_lock(lock_file):
                os.close(lock_file)
                raise LabError(
                    f"the lab {self.name!r} is up already (rankboard lab status{self.flag} shows "
                    "it): "
                    f"stop it with rankboard lab down{self.flag}, or give this one another --name"
                )
            if os.fstat(lock_file).st_nlink:
                return lock_file
            os.close(
                lock_file
            )  # whoever removed the lab that was here has removed this file with it

    def publish(self, lab: Lab) -> None:
        """Write the state of the lab for other processes."""
        new_state = self._state.with_suffix(".new")
        new_state.write_text(dumps(Standing(os.getpid(), lab.spec, lab.state)))
        # By a rename, so that no reader meets half a state.
        new_state.replace(self._state)

    @contextmanager
    def lab(self) -> Iterator[Lab]:
        """The lab. Meanwhile no other process can change it. Raises: LabError, if none is up."""
        with self._opened() as (state_file, standing):
            lab = Lab(standing.spec, standing.lab)
            try:
                yield lab
            finally:
                if lab.state != standing.lab:
                    state_file.seek(0)
                    state_file.write(dumps(replace(standing, lab=lab.state)))
                    state_file.truncate()

    @contextmanager
    def _opened(self) -> Iterator[tuple[TextIO, Standing]]:
        try:
            state_file = self._state.open("r+")
        except OSError:
            raise self._none() from None
        with state_file:
            wait_for_lock(state_file)
            if not self.is_up:
                raise self._none()
            yield state_file, _read(json.loads(state_file.read()))

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
                group_folder = quota.base()
                if group_folder:
                    quota.sweep(group_folder)

    def _end(self) -> None:
        with self._opened() as (_, standing), suppress(ProcessLookupError):
            daemon_descriptor = os.pidfd_open(standing.pid)
            try:
                if not self.is_up:  # the number may be another process's by now
                    return
                signal.pidfd_send_signal(daemon_descriptor, signal.SIGTERM)
                # A descriptor of a process is readable once it has ended, and stands for no later
                # one.
                if not select.select([daemon_descriptor], [], [], ENDING)[0]:
                    signal.pidfd_send_signal(daemon_descriptor, signal.SIGKILL)
                    select.select([daemon_descriptor], [], [], ENDING)
            finally:
                os.close(daemon_descriptor)


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
