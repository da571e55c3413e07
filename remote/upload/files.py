"""A run's files: the operator's folders go to every host before the start, checkpoints and reports
come back after the end."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from remote.format import count, size
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan, PlanError
from remote.record.files import make_folder
from remote.record.layout import FETCHED
from remote.run.rank import RankState
from remote.transport import Transport
from remote.upload import sources
from remote.upload.sources import Source, shown
from remote.upload.transfers import TOLD, Tell, Transfer, Transfers
from training.agent.layout import CHECKPOINTS, MANIFEST, REPORTS
from training.job import Job
from training.transfer.entries import Entry, chunks, entries_of, opened
from training.transfer.tree import Damaged, Tree
from training.wire.events import SESSION

RESULTS = (CHECKPOINTS, REPORTS)
"""The folders of a run's folder on a host that are fetched."""


LOOK = 64 * 2**20
"""Bytes of a file between two looks at how full the disk is."""
SHORT = 200
"""Characters of a path in a message."""


class Stopped(Exception):
    """The transfer was told to end."""


class Files:
    """The transfers of one run. `upload` and `fetch` last until their end; `stop`, from any thread,
    ends them within a second.

    They never raise: they return what went wrong, by the host's number. It names the host, and what
    to do.
    """

    def __init__(
        self, plan: Plan, transport: Transport, tell: Tell, limits: Limits = LIMITS
    ) -> None:
        self._plan, self._transport, self._tell, self._limits = plan, transport, tell, limits
        self._transfers = Transfers()

    def stop(self) -> None:
        """End what is under way: what has been moved stays, every file whole."""
        self._transfers.stop()

    def upload(self) -> dict[int, str]:
        """Make every host have what the plan uploads. Where what goes is wrong itself, that is
        under SESSION."""
        if not self._plan.uploads:
            return {}
        try:
            found = self._found()
        except (PlanError, Stopped) as error:
            return {SESSION: str(error)}
        return self._perform(
            "uploading", range(len(self._plan.hosts)), partial(self._upload, found)
        )

    def fetch(
        self, folder: Path, hosts: Collection[int], expected: Mapping[int, int] | None = None
    ) -> dict[int, str]:
        """Bring the results from these hosts, which are not lost, into `folder`, the run's
        directory: `hosts/<name>/…`.

        `expected`: about how many bytes, by host, as far as is known; see `expected_sizes`. A run
        that saves nothing costs nothing. What went wrong is for a warning: it says where the
        results stay.
        """
        job = self._plan.job
        if not self._plan.policy.fetch or (job and not job.checkpoint_every):
            return {}
        every = enumerate(self._plan.hosts)
        problems = {
            index: f"{host.name}: it is lost" for index, host in every if index not in hosts
        }
        problems |= self._perform(
            "fetching", sorted(hosts), partial(self._fetch, folder / FETCHED, expected or {})
        )
        return {
            index: f"{problem}; {self._stays(index)}" for index, problem in sorted(problems.items())
        }

    def _stays(self, index: int) -> str:
        return f"what was saved there stays in {self._plan.folder(index)}/{CHECKPOINTS}"

    def _perform(self, verb: str, hosts: Collection[int], work: partial[None]) -> dict[int, str]:
        transfers = [
            Transfer(index, self._plan.hosts[index], verb, self._tell, limits=self._limits)
            for index in hosts
        ]
        return self._transfers.perform(transfers, work)

    # Before the run

    def _found(self) -> list[Source]:
        """What goes, with its digests. Raises: PlanError, Stopped."""
        next_look = time.monotonic() + TOLD

        def moved() -> None:
            nonlocal next_look
            if self._transfers.stopped.is_set():
                raise Stopped("the upload was stopped before its end")
            if time.monotonic() >= next_look:
                self._tell(SESSION, "reading what is to be uploaded")
                next_look += TOLD

        found = sources.found(self._plan.uploads, moved)
        if remark := sources.remark(found):
            self._tell(SESSION, remark)
        return [sources.digested(source, moved) for source in found]

    def _upload(self, found: Sequence[Source], transfer: Transfer) -> None:
        index, place = transfer.index, self._plan.cwd(transfer.index)
        transfer.open(
            self._transport,
            "receive",
            place.removesuffix(f"/{self._plan.project}"),
            self._plan.project,
        )
        transfer.say(entries=[source.entry for source in found])
        answer = transfer.answer()
        for path in list(answer["kept"])[: self._limits.errors]:
            self._tell(
                index,
                f"{_short(path)} stays there though it is gone here: it has changed there since "
                "its upload",
            )
        need = [found[number] for number in _distinct(answer["need"])]
        transfer.begin([source.entry for source in need])
        broken = _send(transfer, need)
        try:
            damaged = transfer.answer()["damaged"]
        except ConnectionError as error:
            raise broken or error from None
        if damaged:
            raise ValueError(f"{_listed(damaged)} changed while being uploaded: start again")
        done = (
            f"{len(need):,} of {len(found):,} files ({size(transfer.size)}) uploaded to"
            if need
            else "all files are in"
        )
        self._tell(index, f"{transfer.host.name}: {done} {place}")

    # After the run

    def _fetch(self, folder: Path, expected: Mapping[int, int], transfer: Transfer) -> None:
        transfer.open(self._transport, "send", self._plan.folder(transfer.index), *RESULTS)
        answer = transfer.answer()
        entries = entries_of(answer["entries"])
        failed = [str(path) for path, _ in answer["unread"]]
        self._check(entries, expected.get(transfer.index))
        if entries:
            own = folder_of(transfer.host.name)
            folder.parent.mkdir(parents=True, exist_ok=True)
            make_folder(folder, exist_ok=True)
            with closing(Tree(str(folder / own), str(folder / f".{own}.new"))) as tree:
                _land(transfer, tree, entries, failed)
            files = count(len(entries), "file")
            self._tell(
                transfer.index, f"{transfer.host.name}: {files} ({size(transfer.size)}) fetched"
            )
        if failed:
            raise ValueError(f"{_listed(failed)} could not be read there, or changed meanwhile")

    def _check(self, entries: Sequence[Entry], expected: int | None) -> None:
        """Raises: ValueError, where a host offers what its run cannot have made."""
        limits = self._limits
        for entry in entries:
            if len(os.fsencode(entry.path)) > limits.path or entry.path.count("/") > limits.depth:
                most = f"{limits.path} bytes or {limits.depth} folders"
                raise ValueError(
                    f"the path of a file there has more than {most}, and nothing was fetched: "
                    f"{_short(entry.path)}"
                )
        offered = sum(entry.size for entry in entries)
        if expected is not None and offered > 2 * expected + limits.unexpected:
            said = f"its ranks saved checkpoints of about {size(expected)}"
            raise ValueError(
                f"{size(offered)} of results are there though {said}, and nothing was fetched"
            )


def _send(transfer: Transfer, need: Sequence[Source]) -> OSError | None:
    """Send these files; what broke the channel. Then the host may have said why."""
    for source in need:
        for chunk in _contents(source):
            try:
                transfer.send(chunk)
            except OSError as error:
                return error
        transfer.files_moved += 1
    return None


def _contents(source: Source) -> Iterator[bytes]:
    """As many bytes as announced. Raises: PlanError."""
    if source.entry.link:
        return
    try:
        with opened(source.path) as file:
            yield from chunks(file, source.entry.size)
    except OSError as error:
        raise PlanError(f"upload: {source.path}: {error.strerror}") from error


def _land(transfer: Transfer, tree: Tree, entries: Sequence[Entry], failed: list[str]) -> None:
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
        except Damaged:
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
    """About how many bytes of checkpoints each host has, by what its ranks said they saved; none
    where no rank said so."""
    largest = max((rank.saved_bytes for rank in ranks), default=0)
    if not largest:
        return {}
    found: dict[int, int] = {}
    # one that was heard of late may have saved all the same; and one more than is kept is being
    # written
    for rank in ranks:
        found[rank.host] = found.get(rank.host, 0) + largest * (job.checkpoint_keep + 1)
    return found


def _distinct(numbers: Sequence[int]) -> Sequence[int]:
    """Raises: ValueError, where a host asks for a file twice."""
    if len(set(numbers)) < len(numbers):
        raise ValueError("it asks for a file twice")
    return numbers


def _listed(paths: Sequence[str]) -> str:
    """Some of the paths, and how many more there are."""
    more = len(paths) - sources.NAMED
    return ", ".join(map(_short, paths[: sources.NAMED])) + (
        f" and {more:,} more" if more > 0 else ""
    )


def _short(path: str) -> str:
    """A path, fit for a message."""
    return shown(path if len(path) <= SHORT else f"{path[:SHORT]}…")


def folder_of(host: str) -> str:
    """A host's name as that of a folder; no two hosts have the same."""
    name = re.sub(
        r"[^A-Za-z0-9_.@:-]",
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()),
        host,
    )
    return name.replace(".", "%2E", 1) if name.startswith(".") else name
