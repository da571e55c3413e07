"""Find what an upload is made of: the files and empty folders below the named folders, without what
.gitignore leaves out, and without what rankboard itself has written into the folder where it was
started."""

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
from remote.upload.ignore import FILE, REPOSITORY, IgnoreRules
from remote.upload.outputs import WrittenOutputs
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
    """A file, link or empty folder of this machine."""

    path: str
    entry: FileEntry
    """As what it is announced to the hosts."""
    stamp: Stamp


def resolve_uploads(paths: Sequence[str], start_folder: Path) -> tuple[Upload, ...]:
    """Return where each of these absolute paths lands on the hosts. Raises: PlanError.

    A path below `start_folder`, where rankboard was started, is kept from there, so that relative
    paths mean the same on the hosts. Of another only the name is kept.
    """
    path_by_target: dict[str, str] = {}
    for path in paths:
        if not os.path.exists(path):
            raise PlanError(
                f"upload {printable(path)}: there is no such file or folder; see --upload, and "
                "sync in the hosts file"
            )
        other_path = path_by_target.setdefault(_target(Path(path), start_folder), path)
        if other_path != path:
            raise PlanError(
                f"uploads {printable(other_path)} and {printable(path)} have the same name: rename "
                "one, or start rankboard in a folder above both"
            )
    return tuple(Upload(path, target) for target, path in path_by_target.items())


def _target(path: Path, start_folder: Path) -> str:
    if path == start_folder:
        return ""
    if path.is_relative_to(start_folder):
        return path.relative_to(start_folder).as_posix()
    return path.name or "root"


def project_name(start_folder: Path) -> str:
    """Return the name of the hosts' folder for what is uploaded from `start_folder`: that folder's,
    and a digest against another user's, machine's or folder's of that name."""
    plain_name = re.sub(r"[^A-Za-z0-9_-]+", "-", start_folder.name).strip("-")[:40]
    owner_text = f"{getpass.getuser()}@{socket.gethostname()}:{start_folder}"
    owner_digest = hashlib.sha256(owner_text.encode(errors="surrogateescape")).hexdigest()
    return f"{plain_name or 'files'}-{owner_digest[:8]}"


def find_sources(
    uploads: Sequence[Upload], on_progress: Callable[[], object] = lambda: None
) -> list[UploadSource]:
    """Return all that goes, without digests, in the order of the paths on the hosts. `on_progress`
    is called at each. Raises: PlanError, with the mistakes."""
    source_by_target: dict[str, UploadSource] = {}
    mistakes = []
    for upload in uploads:
        for source in _walk_upload(upload):
            on_progress()
            target = source.entry.path
            other_source = source_by_target.setdefault(target, source)
            if other_source.path != source.path:
                mistakes.append(
                    f"{printable(source.path)} and {printable(other_source.path)} would both be "
                    f"{target}"
                )
            link_target = source.entry.link
            if link_target and not stays_inside(
                os.path.relpath(source.path, upload.source), link_target
            ):
                mistakes.append(
                    f"{printable(source.path)} is a link out of the folder, to "
                    f"{printable(link_target)}"
                )
    if mistakes:
        raise PlanError(_describe_mistakes(mistakes))
    return [source_by_target[target] for target in sorted(source_by_target)]


def _describe_mistakes(mistakes: Sequence[str]) -> str:
    message_lines = [f"upload: {mistake}" for mistake in mistakes[:NAMED]]
    if len(mistakes) > NAMED:
        message_lines.append(f"and {len(mistakes) - NAMED} more")
    message_lines.append("Name them in a .gitignore, or put there what they lead to")
    return "\n".join(message_lines)


def _walk_upload(upload: Upload) -> Iterator[UploadSource]:
    """Yield the files, links and empty folders of one upload. Raises: PlanError, if something
    cannot be read."""
    try:
        if os.path.isdir(upload.source):
            rules = IgnoreRules.above(Path(upload.source))
            # Another folder is named on purpose, perhaps for the files that were exported there.
            outputs = None if upload.target else WrittenOutputs()
            yield from _walk_folder(upload.source, upload.target, rules, outputs)
        else:
            # A link that is named itself means what it leads to; links inside a folder stay
            # links.
            yield from _read_source(os.path.realpath(upload.source), upload.target)
    except OSError as error:
        raise _unreadable(str(error.filename or upload.source), error) from error


def _unreadable(path: str, error: OSError) -> PlanError:
    return PlanError(f"upload: {printable(path)}: {error.strerror}; {ADVICE}")


def _walk_folder(
    folder: str, target: str, rules: IgnoreRules, outputs: WrittenOutputs | None
) -> Iterator[UploadSource]:
    """Yield what travels of a folder; if it is nothing, the folder itself, as a script may write
    into it."""
    is_empty = True
    for source in _walk_entries(folder, target, rules, outputs):
        is_empty = False
        yield source
    if outputs and outputs.has_left_out_below(folder):
        return
    # A folder whose own .gitignore leaves out all, such as a venv, is left out itself.
    if is_empty and target and not os.path.lexists(f"{folder}/{FILE}"):
        yield UploadSource(folder, FileEntry(target, is_folder=True), stamp_of(os.lstat(folder)))


def _walk_entries(
    folder: str, target: str, rules: IgnoreRules, outputs: WrittenOutputs | None
) -> Iterator[UploadSource]:
    rules = rules.inside(folder)
    if outputs:
        outputs.enter(folder)
    with os.scandir(folder) as entries:
        sorted_entries = sorted(entries, key=lambda entry: entry.name)
    for entry in sorted_entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        # A repository may be larger than the files, and no rank needs its history.
        if entry.name == REPOSITORY or rules.leave_out(entry.path, is_folder=is_folder):
            continue
        inner_target = f"{target}/{entry.name}" if target else entry.name
        if is_folder:
            yield from _walk_folder(entry.path, inner_target, rules, outputs)
        elif not (outputs and outputs.leave_out(entry.path)):
            yield from _read_source(entry.path, inner_target)


def _read_source(path: str, target: str) -> Iterator[UploadSource]:
    """Yield the file or link at this path; nothing if it is neither, as others cannot travel."""
    file_status = os.lstat(path)
    if stat.S_ISLNK(file_status.st_mode):
        entry = FileEntry(target, link=os.readlink(path))
    elif stat.S_ISREG(file_status.st_mode):
        is_program = bool(file_status.st_mode & stat.S_IXUSR)
        entry = FileEntry(target, file_status.st_size, executable=is_program)
    else:
        return
    yield UploadSource(path, entry, stamp_of(file_status))


def with_digest(
    source: UploadSource, digests: DigestCache, on_progress: Callable[[], object]
) -> UploadSource:
    """Return the source with the digest of what it contains now. Raises: PlanError."""
    if source.entry.link or source.entry.is_folder:
        return source
    try:
        file_size, digest = digests.find(source.path, source.stamp, on_progress)
    except OSError as error:
        raise _unreadable(source.path, error) from error
    return replace(source, entry=replace(source.entry, size=file_size, digest=digest))


def remark_if_large(sources: Sequence[UploadSource]) -> str:
    """Say that an upload is large, and name its largest files; "" if it is not."""
    total_bytes = sum(source.entry.size for source in sources)
    if total_bytes <= LARGE and len(sources) <= MANY:
        return ""
    entries = sorted((source.entry for source in sources), key=lambda entry: -entry.size)
    largest_names = ", ".join(
        f"{printable(large_entry.path)} ({size(large_entry.size)})"
        for large_entry in entries[:NAMED]
    )
    return (
        f"the upload is large: {len(sources):,} files, {size(total_bytes)}, to every host. The "
        f"largest are {largest_names}. Name what the ranks do not need in a .gitignore"
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
    shown_paths = ", ".join(shorten_path(path) for path in paths[:NAMED])
    hidden_count = len(paths) - NAMED
    return f"{shown_paths} and {hidden_count:,} more" if hidden_count > 0 else shown_paths
