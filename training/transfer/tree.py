"""Writing below one folder what another machine has announced.

Both ends of a transfer use it: a host that is sent the operator's files, and the launcher that
fetches a host's.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby

from training.transfer.entries import FileEntry, Misplaced, compute_digest, open_file
from training.writing import write_all

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DamagedTransfer(Exception):
    """A file that did not arrive as it was announced: nothing was written."""


class Tree:
    """Writes below one folder and nowhere else: every folder on the way to a file is opened by its
    parent, and no link is followed. A file is written in `staging`, on the same disk, and renamed
    once its digest is right.

    All raise: OSError; its `filename` is the path below the folder.
    """

    def __init__(self, root: str, staging: str) -> None:
        """Both folders are made. What lies in `staging` is left over from a transfer that broke:
        see `sweep`."""
        for folder in (root, staging):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        self._staging_path = staging
        self._temporary = f"{socket.gethostname()}-{os.getpid()}-{id(self)}"
        self._root, self._staging = os.open(root, _FOLDER), os.open(staging, _FOLDER)

    def close(self) -> None:
        """Close the tree at the end. The staging folder goes, if nobody else uses it."""
        os.close(self._root)
        os.close(self._staging)
        with suppress(OSError):
            os.rmdir(self._staging_path)

    def sweep(self) -> None:
        """Remove what broken transfers left over; for a caller who knows that none is under way."""
        for name in os.listdir(self._staging):
            with suppress(OSError):
                os.unlink(name, dir_fd=self._staging)

    def free(self) -> int:
        """Return the bytes that the disk has left."""
        disk = os.fstatvfs(self._root)
        return disk.f_bavail * disk.f_frsize

    def capacity(self) -> int:
        """Return the bytes that the disk has in all."""
        disk = os.fstatvfs(self._root)
        return disk.f_blocks * disk.f_frsize

    @contextmanager
    def _parent(self, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that a path lies in; yield it, and the path's name there."""
        *folders, name = path.split("/")
        current = os.dup(self._root)
        try:
            for depth, part in enumerate(folders, start=1):
                with _naming("/".join(folders[:depth])):
                    inner = _enter(current, part, make)
                os.close(current)
                current = inner
            with _naming(path):
                yield current, name
        finally:
            os.close(current)

    def state(self, path: str) -> os.stat_result | None:
        """Return the status of a path (a link counts as itself), if anything is there."""
        return self.states([path]).get(path)

    def states(self, paths: Iterable[str]) -> dict[str, os.stat_result]:
        """Return the status of these paths, as far as there is something.

        Those of a folder that follow each other cost its way once.
        """
        states = {}
        for _, inside in groupby(paths, os.path.dirname):
            first = next(inside)
            with suppress(FileNotFoundError), self._parent(first) as (folder, _):
                for path in (first, *inside):
                    name = path.rpartition("/")[2]
                    with suppress(FileNotFoundError), _naming(path):
                        states[path] = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return states

    def holds(self, entry: FileEntry, moved: Callable[[], object] = lambda: None) -> bool:
        """Return True if the entry is there with these contents; it may be executable or not."""
        state = self.state(entry.path)
        if state is None:
            return False
        with self._parent(entry.path) as (folder, name):
            if entry.is_folder:
                # A link there may lead to a folder on another disk.
                return not stat.S_ISREG(state.st_mode)
            if entry.link or not stat.S_ISREG(state.st_mode):
                is_link = stat.S_ISLNK(state.st_mode)
                return is_link and os.readlink(name, dir_fd=folder) == entry.link
            if state.st_size != entry.size:
                return False
            with open_file(name, folder) as file:
                return compute_digest(file, moved) == entry.digest

    def put(self, entry: FileEntry, chunks: Iterable[bytes]) -> None:
        """Write a file, or make a link or folder, in place of whatever file, link or empty folder
        is there. Takes all of `chunks` where it is Damaged."""
        with self._parent(entry.path, make=True) as (folder, name):
            if entry.is_folder:
                _make_folder(folder, name)
                return
            with suppress(OSError):  # as of a file or of nothing
                os.rmdir(name, dir_fd=folder)
            try:
                if entry.link:
                    os.symlink(entry.link, self._temporary, dir_fd=self._staging)
                else:
                    self._fill(entry, chunks)
                # Within one disk, so that nobody ever sees half of a file.
                os.rename(self._temporary, name, src_dir_fd=self._staging, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(self._temporary, dir_fd=self._staging)
                raise

    def _fill(self, entry: FileEntry, chunks: Iterable[bytes]) -> None:
        checksum = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open(self._temporary, flags, _mode(entry), dir_fd=self._staging)
        try:
            for chunk in chunks:
                checksum.update(chunk)
                write_all(file, chunk)
            if 0 < entry.age < time.time():
                changed_at = time.time() - entry.age
                os.utime(file, (changed_at, changed_at))
        finally:
            os.close(file)
        if checksum.hexdigest() != entry.digest:
            raise DamagedTransfer(entry.path)

    def mark(self, entry: FileEntry) -> None:
        """Make a file that is there executable, or not."""
        with self._parent(entry.path) as (folder, name), open_file(name, folder) as file:
            os.fchmod(file, _mode(entry))

    def remove(self, path: str) -> None:
        """Remove a file or link, and the folders above it that are empty then."""
        with self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)
        self.remove_empty_folders(os.path.dirname(path))

    def remove_empty_folders(self, path: str) -> None:
        """Remove a folder if it is empty, and those above it that are empty then."""
        while path:
            try:
                with self._parent(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return
            path = os.path.dirname(path)


def _mode(entry: FileEntry) -> int:
    """Return the permissions of a file: those of its owner only."""
    return 0o700 if entry.executable else 0o600


def _make_folder(folder: int, name: str) -> None:
    """Make a folder in an open one, also in place of a file."""
    try:
        os.mkdir(name, mode=0o700, dir_fd=folder)
    except FileExistsError:
        os.unlink(name, dir_fd=folder)
        os.mkdir(name, mode=0o700, dir_fd=folder)


def _enter(folder: int, name: str, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, mode=0o700, dir_fd=folder)
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            text = (
                "a link or no folder there, and nothing is written through it; move it away, or "
                "leave out what lies below it"
            )
            raise Misplaced(errno.EPERM, text) from None
        raise


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Puts the whole path into errors of one step on it."""
    try:
        yield
    except OSError as error:
        if "/" not in str(error.filename or ""):
            error.filename = path
            error.filename2 = None
        raise


def list_files(root: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the paths below `root` of the files and links in its folders of these names, in order;
    no link is followed."""
    for name in names:
        for folder, inner, files in os.walk(os.path.join(root, name)):
            inner.sort()
            links = [path for path in inner if os.path.islink(os.path.join(folder, path))]
            for file in sorted(files + links):
                yield os.path.relpath(os.path.join(folder, file), root)
