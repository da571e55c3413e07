"""Upload to one host: it says which of the announced files it lacks, and gets those."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from remote.format import size
from remote.plan.plan import Plan, PlanError
from remote.transport import Transport
from remote.upload.sources import UploadSource, list_paths, shorten_path
from remote.upload.transfers import Transfer, encode_message
from training.transfer.entries import open_file, read_chunks


class Announcement:
    """The files of an upload, as they are announced to every host."""

    def __init__(self, sources: Sequence[UploadSource]) -> None:
        self.sources = sources
        self.line = encode_message(entries=[vars(source.entry) for source in sources])
        self.mark = hashlib.sha256(self.line).hexdigest()


def upload_to_host(
    plan: Plan, transport: Transport, announcement: Announcement, transfer: Transfer
) -> None:
    """Make one host have these files. Raises: OSError, PlanError, ValueError."""
    folder = plan.cwd(transfer.index)
    parent_folder = folder.removesuffix(f"/{plan.project}")
    transfer.open(transport, "receive", parent_folder, plan.project, announcement.mark)
    host_answer = transfer.answer()
    # Most hosts remember the digest of the last list, so that the list itself, which may be long,
    # need not be sent.
    if "unknown" in host_answer:
        transfer.send(announcement.line, is_file=False)
        host_answer = transfer.answer()
    _report_changes(transfer, host_answer)
    needed_numbers = host_answer["need"]
    # A host could otherwise have the same file sent without end.
    if len(set(needed_numbers)) < len(needed_numbers):
        raise ValueError("it asks for a file twice")
    needed_sources = [announcement.sources[source_number] for source_number in needed_numbers]
    transfer.begin([source.entry for source in needed_sources])
    send_error = _send(transfer, needed_sources)
    try:
        # Even after an error in sending: the host may have said why it hung up.
        damaged_paths = transfer.answer()["damaged"]
    except ConnectionError as error:
        raise send_error or error from None
    if damaged_paths:
        raise ValueError(f"{list_paths(damaged_paths)} changed while being uploaded: start again")
    needed_count = _count_files(needed_sources)
    if not needed_count:
        transfer.report(f"all files are in {folder}")
        return
    files_text = f"{needed_count:,} of {_count_files(announcement.sources):,} files"
    transfer.report(f"{files_text} ({size(transfer.size)}) uploaded to {folder}")


def _count_files(sources: Sequence[UploadSource]) -> int:
    return sum(not source.entry.is_folder for source in sources)


def _report_changes(transfer: Transfer, answer: dict[str, Any]) -> None:
    """Say which files were changed on the host since the last upload."""
    for path in list(answer["kept"])[: transfer.limits.errors]:
        transfer.tell(
            transfer.index,
            f"{shorten_path(path)} was deleted here but is kept there: it has changed there since "
            "its upload",
        )
    replaced_paths = list(answer["replaced"])
    if replaced_paths:
        transfer.report(
            f"{list_paths(replaced_paths)}: changed there since the last upload; the version of "
            "this folder replaces it"
        )


def _send(transfer: Transfer, sources: Sequence[UploadSource]) -> OSError | None:
    """Send these files. Return the error that broke the channel, as the host may have said why."""
    for source in sources:
        for chunk in _read_contents(source):
            try:
                transfer.send(chunk)
            except OSError as error:
                return error
        transfer.files_moved += 1
    return None


def _read_contents(source: UploadSource) -> Iterator[bytes]:
    """Yield the bytes of a file, as many as announced. Raises: PlanError."""
    if source.entry.link or source.entry.is_folder:
        return
    try:
        with open_file(source.path) as file:
            yield from read_chunks(file, source.entry.size)
    except OSError as error:
        raise PlanError(f"upload: {source.path}: {error.strerror}") from error
