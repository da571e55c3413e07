"""A run's files: the operator's folders go to every host before the start, checkpoints and reports come back after the end."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from remote import sources
from remote.plan import Plan, PlanError
from remote.resume import FETCHED
from remote.sources import Source, shown, size
from remote.transfers import TOLD, Tell, Transfer, Transfers
from remote.transport import Transport
from training.agent.entries import Entry, chunks, entries_of, opened
from training.agent.files import LAST
from training.agent.tree import Damaged, Tree
from training.events import SESSION
from training.job import Job

RESULTS = ("checkpoints", "reports")
"""The folders of a run's folder on a host that are fetched."""


class Stopped(Exception):
    """The transfer was told to end."""


class Files:
    """The transfers of one run. `upload` and `fetch` last until their end; `stop`, from any thread, ends them within a second.

    They never raise: they return what went wrong, by the host's number. It names the host, and what to do.
    """

    def __init__(self, plan: Plan, transport: Transport, tell: Tell) -> None:
        self._plan, self._transport, self._tell = plan, transport, tell
        self._transfers = Transfers()

    def stop(self) -> None:
        """End what is under way: what has been moved stays, every file whole."""
        self._transfers.stop()

    def upload(self) -> dict[int, str]:
        """Make every host have what the plan uploads. Where what goes is wrong itself, that is under SESSION."""
        if not self._plan.uploads:
            return {}
        try:
            found = self._found()
        except (PlanError, Stopped) as error:
            return {SESSION: str(error)}
        return self._perform("uploading", range(len(self._plan.hosts)), partial(self._upload, found))

    def fetch(self, folder: Path, hosts: Collection[int]) -> dict[int, str]:
        """Bring the results from these hosts, which are not lost, into `folder`, the run's directory: `hosts/<name>/…`.

        A run that saves nothing costs nothing. What went wrong is for a warning: it says where the results stay.
        """
        work = self._plan.work
        if not self._plan.policy.fetch or (isinstance(work, Job) and not work.checkpoint_every):
            return {}
        every = enumerate(self._plan.hosts)
        problems = {index: f"{host.name}: it is lost" for index, host in every if index not in hosts}
        problems |= self._perform("fetching", sorted(hosts), partial(self._fetch, folder / FETCHED))
        return {index: f"{problem}; {self._stays(index)}" for index, problem in sorted(problems.items())}

    def _stays(self, index: int) -> str:
        return f"what was saved there stays in {self._plan.folder(index)}/checkpoints"

    def _perform(self, verb: str, hosts: Collection[int], work: partial[None]) -> dict[int, str]:
        transfers = [Transfer(index, self._plan.hosts[index], verb, self._tell) for index in hosts]
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
        transfer.open(self._transport, "receive", place.removesuffix(f"/{self._plan.project}"), self._plan.project)
        transfer.say(entries=[source.entry for source in found])
        answer = transfer.answer()
        for path in answer["kept"]:
            self._tell(index, f"{shown(path)} stays there though it is gone here: it has changed there since its upload")
        need = [found[number] for number in answer["need"]]
        transfer.begin([source.entry for source in need])
        broken = _send(transfer, need)
        try:
            damaged = transfer.answer()["damaged"]
        except ConnectionError as error:
            raise broken or error from None
        if damaged:
            raise ValueError(f"{', '.join(map(shown, damaged))} changed while being uploaded: start again")
        done = f"{len(need):,} of {len(found):,} files ({size(transfer.size)}) uploaded to" if need else "all files are in"
        self._tell(index, f"{transfer.host.name}: {done} {place}")

    # After the run

    def _fetch(self, folder: Path, transfer: Transfer) -> None:
        transfer.open(self._transport, "send", self._plan.folder(transfer.index), *RESULTS)
        answer = transfer.answer()
        entries = entries_of(answer["entries"])
        failed = [str(path) for path, _ in answer["unread"]]
        if entries:
            own = folder_of(transfer.host.name)
            with closing(Tree(str(folder / own), str(folder / f".{own}.new"))) as tree:
                _land(transfer, tree, entries, failed)
            self._tell(transfer.index, f"{transfer.host.name}: {len(entries):,} files ({size(transfer.size)}) fetched")
        if failed:
            raise ValueError(f"{', '.join(map(shown, failed))} could not be read there, or changed meanwhile")


def _send(transfer: Transfer, need: Sequence[Source]) -> OSError | None:
    """Send these files; what broke the line. Then the host may have said why."""
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
    """Ask for what `tree` lacks and write it. What does not arrive as announced joins those that `failed`; then what would
    make their checkpoint complete is not written."""
    need = [number for number, entry in enumerate(entries) if not tree.holds(entry)]
    transfer.begin(wanted := [entries[number] for number in need])
    if transfer.size > tree.free():
        raise ValueError(f"to fetch takes {size(transfer.size)}, and the disk here has {size(tree.free())} left")
    transfer.say(need=need)
    for entry in wanted:
        folder, _, name = entry.path.rpartition("/")
        data = map(transfer.move, transfer.incoming.take(entry.size))
        try:
            if name == LAST and any(path.startswith(f"{folder}/") for path in failed):
                for _ in data:
                    continue
            else:
                tree.put(entry, data)
        except Damaged:
            failed.append(entry.path)
        transfer.files_moved += 1


def folder_of(host: str) -> str:
    """A host's name as that of a folder; no two hosts have the same."""
    name = re.sub(r"[^A-Za-z0-9_.@:-]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), host)
    return name.replace(".", "%2E", 1) if name.startswith(".") else name
