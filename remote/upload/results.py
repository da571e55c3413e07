"""The results of one host: checkpoints and reports come back after the end of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from remote.format import count, size
from remote.limits import Limits
from remote.plan.plan import Plan, Script
from remote.record.files import make_folder
from remote.run.state.rank_state import RankState
from remote.transport import Transport
from remote.upload.paths import folder_name, list_paths, shorten_path
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
    """What is fetched from a host: folders, or the patterns of a user's own program."""
    if isinstance(plan.work, Script):
        return plan.work.fetch
    return RESULTS if plan.work.checkpoint_every else ()


def results_folder(plan: Plan, index: int) -> str:
    """The folder on a host in which that lies."""
    return plan.folder(index) if plan.job else plan.cwd(index)


def fetch_from_host(
    plan: Plan,
    transport: Transport,
    folder: Path,
    expected: Mapping[int, int],
    transfer: Transfer,
) -> None:
    """Bring the results of one host into a folder of its own in `folder`. Raises: OSError,
    ValueError."""
    transfer.open(transport, "send", results_folder(plan, transfer.index), *patterns_to_fetch(plan))
    answer = transfer.answer()
    entries = entries_of(answer["entries"])
    failed = [str(path) for path, _ in answer["unread"]]
    _check(entries, transfer.limits, expected.get(transfer.index))
    if entries:
        own = folder_name(transfer.host.name)
        make_private_folders(folder.parent)
        make_folder(folder, exist_ok=True)
        with closing(Tree(str(folder / own), str(folder / f".{own}.new"))) as tree:
            _land(transfer, tree, entries, failed)
        files = count(len(entries), "file")
        transfer.tell(
            transfer.index, f"{transfer.host.name}: {files} ({size(transfer.size)}) fetched"
        )
    elif isinstance(plan.work, Script):
        none = f"{transfer.host.name}: no file there matches --fetch {' '.join(plan.work.fetch)}"
        transfer.tell(transfer.index, none)
    if failed:
        raise ValueError(f"{list_paths(failed)} could not be read there, or changed meanwhile")


def explain_missing_here(plan: Plan) -> str:
    """That no file of this machine matches, where the ranks ran here; "" where one does."""
    found = Search(folders=True).find(patterns_to_fetch(plan), plan.cwd(0))
    matches = " ".join(patterns_to_fetch(plan))
    return "" if any(map(os.path.lexists, found)) else f"no file here matches --fetch {matches}"


def _check(entries: Sequence[FileEntry], limits: Limits, expected: int | None) -> None:
    """Raises: ValueError, where a host offers files that its run cannot have made."""
    for entry in entries:
        if len(os.fsencode(entry.path)) > limits.path or entry.path.count("/") > limits.depth:
            most = f"{limits.path} bytes or {limits.depth} folders"
            raise ValueError(
                f"the path of a file there has more than {most}, and nothing was fetched: "
                f"{shorten_path(entry.path)}"
            )
    offered = sum(entry.size for entry in entries)
    if expected is not None and offered > 2 * expected + limits.unexpected:
        said = f"its ranks saved checkpoints of about {size(expected)}"
        raise ValueError(
            f"{size(offered)} of results are there though {said}, and nothing was fetched"
        )


def _land(transfer: Transfer, tree: Tree, entries: Sequence[FileEntry], failed: list[str]) -> None:
    """Ask for what `tree` lacks and write it. What does not arrive as announced joins those that
    `failed`; then what would make their checkpoint complete is not written."""
    need = [number for number, entry in enumerate(entries) if not tree.holds(entry)]
    transfer.begin(wanted := [entries[number] for number in need])
    if transfer.size > _room(tree, transfer.limits):
        raise ValueError(
            f"to fetch takes {size(transfer.size)}, and {_full(tree, transfer.limits)}"
        )
    transfer.say(need=need)
    for entry in wanted:
        folder, _, name = entry.path.rpartition("/")
        data = _while_there_is_room(transfer, tree, transfer.incoming.take(entry.size))
        try:
            if name == MANIFEST and any(path.startswith(f"{folder}/") for path in failed):
                for _ in data:
                    continue
            else:
                tree.put(entry, data)
        except DamagedTransfer:
            failed.append(entry.path)
        transfer.files_moved += 1


def _while_there_is_room(transfer: Transfer, tree: Tree, data: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of a file as they come. Raises: ValueError, once the disk is nearly full, as others
    write to it too."""
    look_at = 0
    for block in data:
        if transfer.moved >= look_at:
            look_at = transfer.moved + LOOK
            if _room(tree, transfer.limits) < 0:
                raise ValueError(_full(tree, transfer.limits))
        yield transfer.move(block)


def _room(tree: Tree, limits: Limits) -> int:
    """Bytes that a fetch may still write."""
    return tree.free() - _spare(tree, limits)


def _spare(tree: Tree, limits: Limits) -> int:
    return min(int(tree.capacity() * limits.disk_spare), limits.disk_spare_most)


def _full(tree: Tree, limits: Limits) -> str:
    return (
        f"the disk here has {size(tree.free())} left, of which {size(_spare(tree, limits))} stay "
        "free"
    )


def expected_sizes(job: Job, ranks: Sequence[RankState]) -> dict[int, int]:
    """About how many bytes of checkpoints each host has, by the figures of its ranks. Empty where
    no rank has saved."""
    largest = max((rank.saved_bytes for rank in ranks), default=0)
    if not largest:
        return {}
    found: dict[int, int] = {}
    # one that was heard of late may have saved all the same; and one more than is kept is being
    # written
    for rank in ranks:
        found[rank.host] = found.get(rank.host, 0) + largest * (job.checkpoint_keep + 1)
    return found
