"""Move the files of a run: the operator's folders go to every host before the start, checkpoints
and reports come back after the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan, PlanError
from remote.record.layout import FETCHED
from remote.transport import Transport
from remote.transport.registry import is_here
from remote.upload import outgoing, results, sources
from remote.upload.digests import DigestCache
from remote.upload.sources import UploadSource
from remote.upload.transfers import REPORTED, Tell, Transfer, Transfers
from training.agent.layout import CHECKPOINTS
from training.wire.events import SESSION


class TransferStopped(Exception):
    """The transfer is to end."""


class FileTransfers:
    """The transfers of one run. `upload` and `fetch` block; `stop`, from any thread, ends them
    within a second.

    They never raise. They return what went wrong, by the index of the host: which host it is, and
    what to do.
    """

    def __init__(
        self, plan: Plan, transport: Transport, tell: Tell, limits: Limits = LIMITS
    ) -> None:
        self._plan = plan
        self._transport = transport
        self._tell = tell
        self._limits = limits
        self._transfers = Transfers()

    def stop(self) -> None:
        """End the transfers. Files that have moved stay, each of them whole."""
        self._transfers.stop()

    def upload(self) -> dict[int, str]:
        """Make every host have what the plan uploads. What is wrong with the files themselves is
        returned under SESSION."""
        if not self._plan.uploads:
            return {}
        digests = DigestCache(self._plan.project)
        try:
            announcement = outgoing.Announcement(self._find_sources(digests))
        except (PlanError, TransferStopped) as error:
            return {SESSION: str(error)}
        upload = partial(outgoing.upload_to_host, self._plan, self._transport, announcement)
        problems = self._perform("uploading", range(len(self._plan.hosts)), upload)
        if problems:
            digests.forget()
        else:
            digests.save()
        return problems

    def fetch(
        self, folder: Path, hosts: Collection[int], expected: Mapping[int, int] | None = None
    ) -> dict[int, str]:
        """Bring the results from these hosts, which are not lost, into `folder`, the run's
        directory: `hosts/<name>/…`.

        `expected`: about how many bytes, by host, as far as is known; see `expected_sizes`. A run
        that saves nothing costs nothing. What went wrong is for a warning: it says where the
        results stay.
        """
        plan = self._plan
        if not plan.policy.fetch or not results.patterns_to_fetch(plan):
            return {}
        if is_here(plan.hosts):
            missing = results.explain_missing_here(plan)
            if missing:
                self._tell(SESSION, missing)
            return {}
        fetch = partial(
            results.fetch_from_host, plan, self._transport, folder / FETCHED, expected or {}
        )
        problems = self._perform("fetching", sorted(hosts), fetch)
        for index, host in enumerate(plan.hosts):
            if index not in hosts:
                problems[index] = f"{host.name}: it is lost"
        return {
            index: f"{problems[index]}; {self._where_it_stays(index)}" for index in sorted(problems)
        }

    def _where_it_stays(self, index: int) -> str:
        folder = results.results_folder(self._plan, index)
        if self._plan.job:
            folder += f"/{CHECKPOINTS}"
        return f"what was saved there stays in {folder}"

    def _perform(
        self, verb: str, hosts: Collection[int], work: Callable[[Transfer], None]
    ) -> dict[int, str]:
        transfers = [
            Transfer(index, self._plan.hosts[index], verb, self._tell, limits=self._limits)
            for index in hosts
        ]
        return self._transfers.perform(transfers, work)

    def _find_sources(self, digests: DigestCache) -> list[UploadSource]:
        """Return the files to upload, with their digests. Raises: PlanError, TransferStopped."""
        next_report = time.monotonic() + REPORTED

        def moved() -> None:
            nonlocal next_report
            if self._transfers.stopped.is_set():
                raise TransferStopped("the upload was stopped before its end")
            if time.monotonic() >= next_report:
                self._tell(SESSION, "reading what is to be uploaded")
                next_report += REPORTED

        files = sources.find_sources(self._plan.uploads, moved)
        remark = sources.remark_if_large(files)
        if remark:
            self._tell(SESSION, remark)
        return [sources.with_digest(file, digests, moved) for file in files]
