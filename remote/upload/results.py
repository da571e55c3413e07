"""Bring the results of one host back after the end of a run: checkpoints and reports, or what
`--fetch` names."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from remote.format import count, size
from remote.limits import Limits
from remote.plan.plan import Plan, Script
from remote.record.files import make_folder
from remote.run.state.rank_state import RankState
from remote.transport import Transport
from remote.upload.sources import list_paths, shorten_path
from remote.upload.transfers import Transfer
from training.agent.find_files import Search
from training.agent.layout import CHECKPOINTS, MANIFEST, REPORTS
from training.job import Job
from training.transfer.entries import FileEntry, entries_of
from training.transfer.tree import DamagedTransfer, Tree
from training.writing import make_private_folders

RESULTS = (CHECKPOINTS, REPORTS)
"""The folders of a run on a host that are fetched."""
LOOK = 64 * 2**20
"""Bytes of a file between two looks at how full the disk is."""


def patterns_to_fetch(plan: Plan) -> tuple[str, ...]:
    """Return what is fetched from a host: folders, or the patterns of a script."""
    if isinstance(plan.work, Script):
        return plan.work.fetch
    return RESULTS if plan.work.checkpoint_every else ()


def results_folder(plan: Plan, index: int) -> str:
    """Return the folder on a host in which that lies."""
    return plan.folder(index) if plan.job else plan.cwd(index)


def fetch_from_host(
    plan: Plan,
    transport: Transport,
    folder: Path,
    expected_bytes: Mapping[int, int],
    run_age: float,
    transfer: Transfer,
) -> None:
    """Bring the results of one host into a folder of its own in `folder`. `run_age`: the seconds
    since the run began. Raises: OSError, ValueError."""
    patterns = patterns_to_fetch(plan)
    transfer.open(transport, "send", results_folder(plan, transfer.index), *patterns)
    listing = transfer.answer()
    entries = entries_of(listing["entries"])
    failed_paths = [str(path) for path, _ in listing["unread"]]
    transfer.offered = len(entries)
    _check(entries, transfer.limits, expected_bytes.get(transfer.index))
    if entries:
        host_folder = folder_name(transfer.host.name)
        make_private_folders(folder.parent)
        # Somebody else may have filled the directory of the run, also with a link of this name.
        make_folder(folder, exist_ok=True)
        with closing(Tree(str(folder / host_folder), str(folder / f".{host_folder}.new"))) as tree:
            _write_files(transfer, tree, entries, failed_paths)
        files_text = f"{count(len(entries), 'file')} ({size(transfer.size)})"
        transfer.report(f"{files_text} fetched into {folder / host_folder}")
        # The checkpoints of a job lie in a folder of the run, which no other run has written to.
        old_paths = [entry.path for entry in entries if plan.script and entry.age > run_age]
        if old_paths:
            old_text = list_paths(old_paths)
            transfer.report(f"older than this run, which did not write them: {old_text}")
    if failed_paths:
        raise ValueError(
            f"{list_paths(failed_paths)} could not be read there, or changed meanwhile"
        )


def matches_here(plan: Plan) -> bool:
    """Return True if a file of this machine, on which the ranks ran, is one to fetch."""
    matching_paths = Search(folders=True).find(patterns_to_fetch(plan), plan.cwd(0))
    return any(map(os.path.lexists, matching_paths))


def explain_missing(plan: Plan, where: str) -> str:
    """Say that no file is one to fetch."""
    return f"no file {where} matches --fetch {' '.join(patterns_to_fetch(plan))}"


def folder_name(host_name: str) -> str:
    """Return the name of a host as that of a folder. No two hosts have the same."""

    def escape(unsafe_match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in unsafe_match[0].encode())

    escaped_name = re.sub(r"[^A-Za-z0-9_.@:-]", escape, host_name)
    # a folder must not be hidden, nor be `.` or `..`
    return re.sub(r"^\.", "%2E", escaped_name)


def _check(entries: Sequence[FileEntry], limits: Limits, expected_bytes: int | None) -> None:
    """Raises: ValueError, if a host offers files that its run cannot have made."""
    for entry in entries:
        if len(os.fsencode(entry.path)) > limits.path or entry.path.count("/") > limits.depth:
            raise ValueError(
                f"the path of a file there has more than {limits.path} bytes or {limits.depth} "
                f"folders, and nothing was fetched: {shorten_path(entry.path)}"
            )
    offered_bytes = sum(entry.size for entry in entries)
    # A generous bound: it is against a host that fills the operator's disk, not against a large
    # model.
    if expected_bytes is not None and offered_bytes > 2 * expected_bytes + limits.unexpected:
        raise ValueError(
            f"{size(offered_bytes)} of results are there though its ranks saved checkpoints of "
            f"about {size(expected_bytes)}, and nothing was fetched"
        )


def _write_files(
    transfer: Transfer, tree: Tree, entries: Sequence[FileEntry], failed_paths: list[str]
) -> None:
    """Ask for what `tree` lacks and write it. What does not arrive as announced joins those that
    `failed_paths`; then what would make their checkpoint complete is not written."""
    missing_numbers = [
        entry_number for entry_number, entry in enumerate(entries) if not tree.holds(entry)
    ]
    missing_entries = [entries[entry_number] for entry_number in missing_numbers]
    transfer.begin(missing_entries)
    disk_room = _DiskRoom(tree, transfer.limits)
    if transfer.size > disk_room.room():
        raise ValueError(f"to fetch takes {size(transfer.size)}, and {disk_room.describe()}")
    transfer.send_message(need=missing_numbers)
    for entry in missing_entries:
        blocks = _while_there_is_room(transfer, disk_room, transfer.incoming.take(entry.size))
        try:
            if _completes_failed(entry, failed_paths):
                # It is on its way already: what follows it can be read only after it.
                for _ in blocks:
                    continue
            else:
                tree.put(entry, blocks)
        except DamagedTransfer:
            failed_paths.append(entry.path)
        transfer.files_moved += 1


def _completes_failed(entry: FileEntry, failed_paths: Sequence[str]) -> bool:
    """Return True for the manifest of a checkpoint of which a file failed."""
    folder, _, file_name = entry.path.rpartition("/")
    return file_name == MANIFEST and any(path.startswith(f"{folder}/") for path in failed_paths)


def _while_there_is_room(
    transfer: Transfer, disk_room: _DiskRoom, blocks: Iterator[bytes]
) -> Iterator[bytes]:
    """Yield the bytes of a file as they come. Raises: ValueError, once the disk is nearly full, as
    others write to it too."""
    next_look = 0
    for block in blocks:
        if transfer.moved >= next_look:
            next_look = transfer.moved + LOOK
            if disk_room.room() < 0:
                raise ValueError(disk_room.describe())
        transfer.moved += len(block)
        yield block


class _DiskRoom:
    """The room on the disk here, of which a part stays free."""

    def __init__(self, tree: Tree, limits: Limits) -> None:
        self._tree = tree
        self._spare = min(int(tree.capacity() * limits.disk_spare), limits.disk_spare_most)

    def room(self) -> int:
        """Return the bytes that a fetch may still write."""
        return self._tree.free() - self._spare

    def describe(self) -> str:
        """Say how little is left."""
        free_size = size(self._tree.free())
        return f"the disk here has {free_size} left, of which {size(self._spare)} stay free"


def expected_sizes(job: Job, ranks: Sequence[RankState]) -> dict[int, int]:
    """Return about how many bytes of checkpoints each host has, by what its ranks report. Empty if
    no rank has saved."""
    largest_checkpoint = max((rank.saved_bytes for rank in ranks), default=0)
    if not largest_checkpoint:
        return {}
    # One more than is kept is being written, and a rank that was heard of late may have saved.
    most_of_rank = largest_checkpoint * (job.checkpoint_keep + 1)
    ranks_of_hosts = Counter(rank.host for rank in ranks)
    return {host: rank_count * most_of_rank for host, rank_count in ranks_of_hosts.items()}
