"""The upload to one host: it says which of the announced files it lacks, and gets those."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from remote.format import size
from remote.plan.plan import Plan, PlanError
from remote.transport import Transport
from remote.upload.paths import list_paths, shorten_path
from remote.upload.sources import UploadSource
from remote.upload.transfers import Transfer, encoded
from training.transfer.entries import open_file, read_chunks


class Announcement:
    """These files, as they are announced to every host."""

    def __init__(self, found: Sequence[UploadSource]) -> None:
        self.sources = found
        self.line = encoded(entries=[vars(source.entry) for source in found])
        self.mark = hashlib.sha256(self.line).hexdigest()


def upload_to_host(
    plan: Plan, transport: Transport, announced: Announcement, transfer: Transfer
) -> None:
    """Make one host have these files. Raises: OSError, PlanError, ValueError."""
    index = transfer.index
    place = plan.cwd(transfer.index)
    found = announced.sources
    folder = place.removesuffix(f"/{plan.project}")
    transfer.open(transport, "receive", folder, plan.project, announced.mark)
    answer = transfer.answer()
    if "unknown" in answer:
        transfer.send(announced.line, counted=False)
        answer = transfer.answer()
    for path in list(answer["kept"])[: transfer.limits.errors]:
        transfer.tell(
            index,
            f"{shorten_path(path)} was deleted here but is kept there: it has changed there since "
            "its upload",
        )
    replaced = list(answer["replaced"])
    if replaced:
        transfer.tell(
            index,
            f"{transfer.host.name}: {list_paths(replaced)}: changed there since the last upload; "
            "the version of this folder replaces it",
        )
    need = [found[number] for number in _distinct(answer["need"])]
    transfer.begin([source.entry for source in need])
    broken = _send(transfer, need)
    try:
        damaged = transfer.answer()["damaged"]
    except ConnectionError as error:
        raise broken or error from None
    if damaged:
        raise ValueError(f"{list_paths(damaged)} changed while being uploaded: start again")
    done = (
        f"{len(need):,} of {len(found):,} files ({size(transfer.size)}) uploaded to"
        if need
        else "all files are in"
    )
    transfer.tell(index, f"{transfer.host.name}: {done} {place}")


def _send(transfer: Transfer, need: Sequence[UploadSource]) -> OSError | None:
    """Send these files; the error that broke the channel. The host may have said why."""
    for source in need:
        for chunk in _contents(source):
            try:
                transfer.send(chunk)
            except OSError as error:
                return error
        transfer.files_moved += 1
    return None


def _contents(source: UploadSource) -> Iterator[bytes]:
    """The bytes of a file, as many as announced. Raises: PlanError."""
    if source.entry.link:
        return
    try:
        with open_file(source.path) as file:
            yield from read_chunks(file, source.entry.size)
    except OSError as error:
        raise PlanError(f"upload: {source.path}: {error.strerror}") from error


def _distinct(numbers: Sequence[int]) -> Sequence[int]:
    """Raises: ValueError, where a host asks for a file twice."""
    if len(set(numbers)) < len(numbers):
        raise ValueError("it asks for a file twice")
    return numbers
