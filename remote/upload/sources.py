"""Find what an upload is made of: the files below the named folders, without what .gitignore
leaves out."""

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
"""Bytes beyond which an upload is remarked upon, as it is rarely meant to be that large."""
MANY = 20_000
"""So it is beyond this many files."""
NAMED = 3
"""How many files or mistakes a message names."""
SHORT = 200
"""Characters of a path in a message."""
ADVICE = "make it readable, or name it in a .gitignore"


@dataclass(frozen=True)
class UploadSource:
    """A file or link of this machine."""

    path: str
    entry: FileEntry
    """As what it is announced to the hosts."""
    stamp: Stamp


def resolve_uploads(paths: Sequence[str], start_folder: Path) -> tuple[Upload, ...]:
    """Return where each of these absolute paths lands on the hosts. Raises: PlanError.

    A path below `start_folder`, where rankboard was started, is kept from there, so that relative
    paths mean the same on the hosts. Of another only the name is kept.
    """
    by_target: dict[str, str] = {}
    for path in paths:
        if not os.path.exists(path):
            raise PlanError(
                f"upload {printable(path)}: there is no such file or folder; see --upload, and "
                "sync in the hosts file"
            )
        other = by_target.setdefault(_target(Path(path), start_folder), path)
        if other != path:
            raise PlanError(
                f"uploads {printable(other)} and {printable(path)} have the same name: rename "
                "one, or start rankboard in a folder above both"
            )
    return tuple(Upload(path, target) for target, path in by_target.items())


def _target(path: Path, start_folder: Path) -> str:
    if path == start_folder:
        return ""
    if path.is_relative_to(start_folder):
        return path.relative_to(start_folder).as_posix()
    return path.name or "root"


def project_name(start_folder: Path) -> str:
    """Return the name of the hosts' folder for what is uploaded from `start_folder`: that folder's,
    and a digest against another user's, machine's or folder's of that name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", start_folder.name).strip("-")[:40]
    owner = f"{getpass.getuser()}@{socket.gethostname()}:{start_folder}"
    digest = hashlib.sha256(owner.encode(errors="surrogateescape")).hexdigest()
    return f"{name or 'files'}-{digest[:8]}"


def find_sources(
    uploads: Sequence[Upload], moved: Callable[[], object] = lambda: None
) -> list[UploadSource]:
    """Return all that goes, without digests, in the order of the paths on the hosts. `moved` is
    called at each. Raises: PlanError, with the mistakes."""
    sources: dict[str, UploadSource] = {}
    mistakes = []
    for upload in uploads:
        for source in _walk_upload(upload):
            moved()
            target = source.entry.path
            other = sources.setdefault(target, source)
            if other.path != source.path:
                mistakes.append(
                    f"{printable(source.path)} and {printable(other.path)} would both be {target}"
                )
            link = source.entry.link
            if link and not stays_inside(os.path.relpath(source.path, upload.source), link):
                mistakes.append(
                    f"{printable(source.path)} is a link out of the folder, to {printable(link)}"
                )
    if mistakes:
        raise PlanError(_describe_mistakes(mistakes))
    return [sources[target] for target in sorted(sources)]


def _describe_mistakes(mistakes: Sequence[str]) -> str:
    lines = [f"upload: {mistake}" for mistake in mistakes[:NAMED]]
    if len(mistakes) > NAMED:
        lines.append(f"and {len(mistakes) - NAMED} more")
    lines.append("Name them in a .gitignore, or put there what they lead to")
    return "\n".join(lines)


def _walk_upload(upload: Upload) -> Iterator[UploadSource]:
    """Yield the files and links of one upload. Raises: PlanError, if something cannot be read."""
    try:
        if os.path.isdir(upload.source):
            rules = IgnoreRules.above(Path(upload.source))
            yield from _walk_folder(upload.source, upload.target, rules)
        else:
            yield from _read_source(os.path.realpath(upload.source), upload.target)
    except OSError as error:
        raise _unreadable(str(error.filename or upload.source), error) from error


def _unreadable(path: str, error: OSError) -> PlanError:
    return PlanError(f"upload: {printable(path)}: {error.strerror}; {ADVICE}")


def _walk_folder(folder: str, target: str, rules: IgnoreRules) -> Iterator[UploadSource]:
    rules = rules.inside(folder)
    with os.scandir(folder) as entries:
        sorted_entries = sorted(entries, key=lambda entry: entry.name)
    for entry in sorted_entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name == REPOSITORY or rules.leave_out(entry.path, is_folder=is_folder):
            continue
        inner_target = f"{target}/{entry.name}" if target else entry.name
        if is_folder:
            yield from _walk_folder(entry.path, inner_target, rules)
        else:
            yield from _read_source(entry.path, inner_target)


def _read_source(path: str, target: str) -> Iterator[UploadSource]:
    """Yield the file or link at this path; nothing if it is neither, as others cannot travel."""
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        entry = FileEntry(target, link=os.readlink(path))
    elif stat.S_ISREG(state.st_mode):
        is_program = bool(state.st_mode & stat.S_IXUSR)
        entry = FileEntry(target, state.st_size, executable=is_program)
    else:
        return
    yield UploadSource(path, entry, stamp_of(state))


def with_digest(
    source: UploadSource, digests: DigestCache, moved: Callable[[], object]
) -> UploadSource:
    """Return the source with the digest of what it contains now. Raises: PlanError."""
    if source.entry.link:
        return source
    try:
        size, digest = digests.find(source.path, source.stamp, moved)
    except OSError as error:
        raise _unreadable(source.path, error) from error
    return replace(source, entry=replace(source.entry, size=size, digest=digest))


def remark_if_large(sources: Sequence[UploadSource]) -> str:
    """Say that an upload is large, and name its largest files; "" if it is not."""
    total = sum(source.entry.size for source in sources)
    if total <= LARGE and len(sources) <= MANY:
        return ""
    entries = sorted((source.entry for source in sources), key=lambda entry: -entry.size)
    largest = ", ".join(f"{printable(it.path)} ({size(it.size)})" for it in entries[:NAMED])
    return (
        f"the upload is large: {len(sources):,} files, {size(total)}, to every host. The largest "
        f"are {largest}. Name what the ranks do not need in a .gitignore"
    )


# Paths in messages --------------------------------------------------------------------------------


def printable(path: str) -> str:
    """Return a path, fit for a terminal."""
    return path if path.isprintable() else ascii(path)


def shorten_path(path: str) -> str:
    """Return a path, fit for a terminal and not at length."""
    return printable(path if len(path) <= SHORT else f"{path[:SHORT]}…")


def list_paths(paths: Sequence[str]) -> str:
    """Return some of the paths, and how many more there are."""
    text = ", ".join(shorten_path(path) for path in paths[:NAMED])
    hidden = len(paths) - NAMED
    return f"{text} and {hidden:,} more" if hidden > 0 else text
