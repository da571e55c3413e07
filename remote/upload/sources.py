"""What an upload is made of: the files below the named folders, without what .gitignore leaves
out."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from remote.format import size
from remote.plan.plan import PlanError, Upload
from remote.upload.ignore import REPOSITORY, Rules
from training.transfer.entries import Entry, digest, opened, stays

LARGE, MANY = 200 * 1000**2, 20_000
"""Bytes and files beyond which an upload is remarked upon: it is rarely meant to be that large."""
NAMED = 3
"""How many files or mistakes a message names."""


@dataclass(frozen=True)
class Source:
    """A file or link of this machine: where it lies, and as what it is announced to the hosts."""

    path: str
    entry: Entry


def uploads(paths: Sequence[str], here: Path) -> tuple[Upload, ...]:
    """Where each of these absolute paths lands: one below `here`, where rankboard was started,
    keeps its path from there, so that relative paths mean the same on the hosts; another keeps its
    name. Raises: PlanError."""
    found = {path: _target(Path(path), here) for path in paths}
    for path in found:
        if not os.path.exists(path):
            raise PlanError(
                f"upload {shown(path)}: there is no such file or folder; see --upload, and sync "
                "in the hosts file"
            )
    for path, target in found.items():
        for other, taken in found.items():
            if target == taken and path < other:
                raise PlanError(
                    f"uploads {shown(path)} and {shown(other)} have one name: rename one, or "
                    "start above both"
                )
    return tuple(Upload(path, target) for path, target in found.items())


def _target(path: Path, here: Path) -> str:
    if path.is_relative_to(here):
        return "" if path == here else path.relative_to(here).as_posix()
    return path.name or "root"


def project(here: Path) -> str:
    """The name of the hosts' folder for what is uploaded from `here`: that folder's, and a digest
    against another user's, machine's or folder's of that name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", here.name).strip("-")[:40]
    whose = f"{getpass.getuser()}@{socket.gethostname()}:{here}"
    digest = hashlib.sha256(whose.encode(errors="surrogateescape")).hexdigest()
    return f"{name or 'files'}-{digest[:8]}"


def found(uploads: Sequence[Upload], moved: Callable[[], object] = lambda: None) -> list[Source]:
    """All that goes, without digests, in the order of the paths on the hosts; `moved` is called at
    each.

    Raises: PlanError, with what is wrong.
    """
    sources: dict[str, Source] = {}
    mistakes = []
    for upload in uploads:
        for source in _below(upload):
            moved()
            target = source.entry.path
            if (other := sources.setdefault(target, source)).path != source.path:
                mistakes.append(
                    f"{shown(source.path)} and {shown(other.path)} would both be {target}"
                )
            if source.entry.link and not stays(
                os.path.relpath(source.path, upload.source), source.entry.link
            ):
                mistakes.append(
                    f"{shown(source.path)} is a link out of the folder, to "
                    f"{shown(source.entry.link)}"
                )
    if mistakes:
        more = f"\nand {len(mistakes) - NAMED} more" if len(mistakes) > NAMED else ""
        raise PlanError(
            "\n".join(f"upload: {mistake}" for mistake in mistakes[:NAMED])
            + f"{more}\nName them in a .gitignore, or put there what they lead to"
        )
    return [sources[target] for target in sorted(sources)]


def _below(upload: Upload) -> Iterator[Source]:
    """The files and links of one upload. Raises: PlanError, where something cannot be read."""
    try:
        if not os.path.isdir(upload.source):
            yield _source(os.path.realpath(upload.source), upload.target)
            return
        for path in _walk(upload.source, Rules.above(Path(upload.source))):
            target = PurePosixPath(upload.target, os.path.relpath(path, upload.source))
            if stat.S_IFMT(os.lstat(path).st_mode) in (
                stat.S_IFREG,
                stat.S_IFLNK,
            ):  # others cannot travel
                yield _source(path, str(target))
    except OSError as error:
        what = shown(str(error.filename or upload.source))
        raise PlanError(
            f"upload: {what}: {error.strerror}; make it readable, or name it in a .gitignore"
        ) from error


def _walk(folder: str, rules: Rules) -> Iterator[str]:
    rules = rules.inside(folder)
    with os.scandir(folder) as entries:
        inner = sorted(entries, key=lambda entry: entry.name)
    for entry in inner:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == REPOSITORY or rules.leave_out(entry.path, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk(entry.path, rules)
        else:
            yield entry.path


def _source(path: str, target: str) -> Source:
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        return Source(path, Entry(target, link=os.readlink(path)))
    return Source(path, Entry(target, state.st_size, executable=bool(state.st_mode & stat.S_IXUSR)))


def digested(source: Source, moved: Callable[[], object]) -> Source:
    """The source with the digest of what it has now. Raises: PlanError."""
    if source.entry.link:
        return source
    try:
        with opened(source.path) as file:
            entry = replace(source.entry, digest=digest(file, moved), size=os.fstat(file).st_size)
    except OSError as error:
        raise PlanError(
            f"upload: {shown(source.path)}: {error.strerror}; make it readable, or name it in a "
            ".gitignore"
        ) from error
    return replace(source, entry=entry)


def remark(sources: Sequence[Source]) -> str:
    """What there is to say of an upload that is large, which names its largest files; "" of any
    other."""
    total = sum(source.entry.size for source in sources)
    if total <= LARGE and len(sources) <= MANY:
        return ""
    largest = sorted(sources, key=lambda source: -source.entry.size)[:NAMED]
    named = ", ".join(
        f"{shown(source.entry.path)} ({size(source.entry.size)})" for source in largest
    )
    return (
        f"the upload is large: {len(sources):,} files, {size(total)}, to every host. The largest "
        f"are {named}. "
        "Name what the ranks do not need in a .gitignore"
    )


def shown(path: str) -> str:
    """A path, fit for a terminal."""
    return path if path.isprintable() else ascii(path)
