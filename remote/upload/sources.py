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
from pathlib import Path

from remote.format import size
from remote.plan.plan import PlanError, Upload
from remote.upload.digests import DigestCache
from remote.upload.ignore import REPOSITORY, IgnoreRules
from training.transfer.entries import FileEntry, Stamp, stamp_of, stays_inside

LARGE = 200 * 1000**2
MANY = 20_000
"""Bytes and files beyond which an upload is remarked upon: it is rarely meant to be that large."""
NAMED = 3
"""How many files or mistakes a message names."""


@dataclass(frozen=True)
class UploadSource:
    """A file or link of this machine: where it lies, as what it is announced to the hosts, and its
    stamp."""

    path: str
    entry: FileEntry
    stamp: Stamp


def resolve_uploads(paths: Sequence[str], here: Path) -> tuple[Upload, ...]:
    """Where each of these absolute paths lands: one below `here`, where rankboard was started,
    keeps its path from there, so that relative paths mean the same on the hosts; another keeps its
    name. Raises: PlanError."""
    targets = {path: _target(Path(path), here) for path in paths}
    for path in targets:
        if not os.path.exists(path):
            raise PlanError(
                f"upload {printable(path)}: there is no such file or folder; see --upload, and "
                "sync in the hosts file"
            )
    for path, target in targets.items():
        for other, taken in targets.items():
            if target == taken and path < other:
                raise PlanError(
                    f"uploads {printable(path)} and {printable(other)} have the same name: "
                    "rename one, or start rankboard in a folder above both"
                )
    return tuple(Upload(path, target) for path, target in targets.items())


def _target(path: Path, here: Path) -> str:
    if path.is_relative_to(here):
        return "" if path == here else path.relative_to(here).as_posix()
    return path.name or "root"


def project_name(here: Path) -> str:
    """The name of the hosts' folder for what is uploaded from `here`: that folder's, and a digest
    against another user's, machine's or folder's of that name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", here.name).strip("-")[:40]
    whose = f"{getpass.getuser()}@{socket.gethostname()}:{here}"
    digest = hashlib.sha256(whose.encode(errors="surrogateescape")).hexdigest()
    return f"{name or 'files'}-{digest[:8]}"


def find_sources(
    uploads: Sequence[Upload], moved: Callable[[], object] = lambda: None
) -> list[UploadSource]:
    """All that goes, without digests, in the order of the paths on the hosts; `moved` is called at
    each.

    Raises: PlanError, with what is wrong.
    """
    sources: dict[str, UploadSource] = {}
    mistakes = []
    for upload in uploads:
        for source in _below(upload):
            moved()
            target = source.entry.path
            other = sources.setdefault(target, source)
            if other.path != source.path:
                mistakes.append(
                    f"{printable(source.path)} and {printable(other.path)} would both be {target}"
                )
            if source.entry.link and not stays_inside(
                os.path.relpath(source.path, upload.source), source.entry.link
            ):
                mistakes.append(
                    f"{printable(source.path)} is a link out of the folder, to "
                    f"{printable(source.entry.link)}"
                )
    if mistakes:
        more = f"\nand {len(mistakes) - NAMED} more" if len(mistakes) > NAMED else ""
        raise PlanError(
            "\n".join(f"upload: {mistake}" for mistake in mistakes[:NAMED])
            + f"{more}\nName them in a .gitignore, or put there what they lead to"
        )
    return [sources[target] for target in sorted(sources)]


def _below(upload: Upload) -> Iterator[UploadSource]:
    """The files and links of one upload. Raises: PlanError, where something cannot be read."""
    try:
        if os.path.isdir(upload.source):
            yield from _walk(upload.source, upload.target, IgnoreRules.above(Path(upload.source)))
        else:
            yield from _source(os.path.realpath(upload.source), upload.target)
    except OSError as error:
        what = printable(str(error.filename or upload.source))
        raise PlanError(
            f"upload: {what}: {error.strerror}; make it readable, or name it in a .gitignore"
        ) from error


def _walk(folder: str, target: str, rules: IgnoreRules) -> Iterator[UploadSource]:
    rules = rules.inside(folder)
    with os.scandir(folder) as entries:
        inner = sorted(entries, key=lambda entry: entry.name)
    for entry in inner:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == REPOSITORY or rules.leave_out(entry.path, is_folder=is_folder):
            continue
        into = f"{target}/{entry.name}" if target else entry.name
        if is_folder:
            yield from _walk(entry.path, into, rules)
        else:
            yield from _source(entry.path, into)


def _source(path: str, target: str) -> Iterator[UploadSource]:
    """The file or link at this path; nothing where it is neither, as others cannot travel."""
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        yield UploadSource(path, FileEntry(target, link=os.readlink(path)), stamp_of(state))
    elif stat.S_ISREG(state.st_mode):
        is_program = bool(state.st_mode & stat.S_IXUSR)
        entry = FileEntry(target, state.st_size, executable=is_program)
        yield UploadSource(path, entry, stamp_of(state))


def with_digest(
    source: UploadSource, digests: DigestCache, moved: Callable[[], object]
) -> UploadSource:
    """The source with the digest of what it has now. Raises: PlanError."""
    if source.entry.link:
        return source
    try:
        size, digest = digests.of(source.path, source.stamp, moved)
    except OSError as error:
        raise PlanError(
            f"upload: {printable(source.path)}: {error.strerror}; make it readable, or name it in "
            "a .gitignore"
        ) from error
    return replace(source, entry=replace(source.entry, size=size, digest=digest))


def remark_if_large(sources: Sequence[UploadSource]) -> str:
    """What there is to say of an upload that is large, which names its largest files; "" of any
    other."""
    total = sum(source.entry.size for source in sources)
    if total <= LARGE and len(sources) <= MANY:
        return ""
    largest = sorted(sources, key=lambda source: -source.entry.size)[:NAMED]
    named = ", ".join(
        f"{printable(source.entry.path)} ({size(source.entry.size)})" for source in largest
    )
    return (
        f"the upload is large: {len(sources):,} files, {size(total)}, to every host. The largest "
        f"are {named}. "
        "Name what the ranks do not need in a .gitignore"
    )


def printable(path: str) -> str:
    """A path, fit for a terminal."""
    return path if path.isprintable() else ascii(path)
