"""Move the files of a run: the operator's folders go to every host before the start, checkpoints
and reports come back after the end."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from remote.concurrently import iter_completed
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan, PlanError
from remote.record.layout import FETCHED
from remote.transport import Transport, Unreachable
from remote.transport.registry import is_here
from remote.transport.start_dialog import last_line
from remote.upload import outgoing, results, sources
from remote.upload.digests import DigestCache
from remote.upload.sources import UploadSource, printable
from remote.upload.transfers import LEAST, STALLED, Tell, Transfer
from training.agent.layout import CHECKPOINTS
from training.transfer.tree import DamagedTransfer
from training.wire.events import SESSION

REPORTED = 2.0
"""Seconds between two lines on how far a transfer is."""
LOOK = 0.25
"""Seconds between two looks at the transfers at most."""
CLOSING = 0.5
"""Seconds that a transfer has to end once it is stopped."""
STOPPED = "stopped before its end"


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
        self._stopped = threading.Event()
        self._open: Sequence[Transfer] = ()

    def stop(self) -> None:
        """End the transfers. Files that have moved stay, each of them whole."""
        self._stopped.set()
        for transfer in self._open:
            # Each in a thread: a channel that hangs takes a second to close.
            threading.Thread(target=transfer.close, name="leaving", daemon=True).start()

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
        upload_files = partial(outgoing.upload_to_host, self._plan, self._transport, announcement)
        problems = self._perform("uploading", range(len(self._plan.hosts)), upload_files)
        if problems:
            # A host may have found that a file is not what its digest says.
            digests.forget()
        else:
            digests.save()
        return problems

    def fetch(
        self,
        folder: Path,
        host_indices: Collection[int],
        expected_bytes: Mapping[int, int] | None = None,
        run_age: float = math.inf,
    ) -> dict[int, str]:
        """Bring the results from these hosts, which are not lost, into `folder`, the run's
        directory: `hosts/<name>/…`.

        `expected_bytes`: about how many bytes, by host, as far as is known; see `expected_sizes`.
        `run_age`: seconds since the run began; files of a script that are older are named. A run
        that saves nothing costs nothing. What went wrong is for a warning: it says where the
        results stay.
        """
        plan = self._plan
        if not plan.policy.fetch or not results.patterns_to_fetch(plan):
            return {}
        # The results of ranks on this machine are where they belong already.
        if is_here(plan.hosts):
            if not results.matches_here(plan):
                self._tell(SESSION, results.explain_missing(plan, "here"))
            return {}
        fetch_results = partial(
            results.fetch_from_host,
            plan,
            self._transport,
            folder / FETCHED,
            expected_bytes or {},
            run_age,
        )
        problems = self._perform("fetching", sorted(host_indices), fetch_results)
        # Often only rank 0 saves, so that most hosts have nothing.
        if plan.script and not problems and not any(done.offered for done in self._open):
            self._tell(SESSION, results.explain_missing(plan, "on the hosts"))
        for host_index, host in enumerate(plan.hosts):
            if host_index not in host_indices:
                problems[host_index] = f"{host.name}: it is lost"
        return {
            host_index: f"{problems[host_index]}; {self._where_it_stays(host_index)}"
            for host_index in sorted(problems)
        }

    def _where_it_stays(self, host_index: int) -> str:
        results_folder = results.results_folder(self._plan, host_index)
        if self._plan.job:
            results_folder += f"/{CHECKPOINTS}"
        return f"what was saved there stays in {results_folder}"

    def _perform(
        self, verb: str, host_indices: Collection[int], host_work: Callable[[Transfer], None]
    ) -> dict[int, str]:
        """Do the work for each host, all at once, and report progress. Return what went wrong, by
        the index of the host."""
        self._open = [
            Transfer(
                host_index, self._plan.hosts[host_index], verb, self._tell, limits=self._limits
            )
            for host_index in host_indices
        ]
        pending_transfers = {transfer.index: transfer for transfer in self._open}
        problems: dict[int, str] = {}
        next_report = time.monotonic() + REPORTED
        give_up_at = math.inf
        for completed_work in iter_completed(partial(self._run_one, host_work), self._open, LOOK):
            if completed_work:
                host_index, problem = completed_work[1]
                del pending_transfers[host_index]
                if problem:
                    problems[host_index] = problem
            now = time.monotonic()
            if now >= next_report:
                next_report = now + REPORTED
                for transfer in pending_transfers.values():
                    transfer.look()
            if self._stopped.is_set():
                give_up_at = min(give_up_at, now + CLOSING)
            if now >= give_up_at:
                break
        for host_index, transfer in pending_transfers.items():
            problems[host_index] = f"{transfer.host.name}: {STOPPED}"
        return problems

    def _run_one(
        self, host_work: Callable[[Transfer], None], transfer: Transfer
    ) -> tuple[int, str]:
        """Do one host's work. Return its index, and what went wrong."""
        problem_text = ""
        try:
            host_work(transfer)
        except Unreachable as error:
            transfer.close()
            return transfer.index, str(error)
        except (OSError, DamagedTransfer, LookupError, TypeError, ValueError) as error:
            problem_text = self._explain(error, transfer)
        except Exception as error:  # noqa: BLE001 - our own mistake must not stop the others
            problem_text = f"rankboard itself failed: {error!r}"
        transfer.close()
        return transfer.index, f"{transfer.host.name}: {problem_text}" if problem_text else ""

    def _explain(self, error: Exception, transfer: Transfer) -> str:
        """Say what an error means, without the name of the host."""
        if self._stopped.is_set():
            return STOPPED
        if transfer.has_stalled:
            return f"nothing moved for {STALLED:.0f} s while {transfer.verb}"
        if transfer.channel and transfer.crawls:
            patience_text = f"{transfer.limits.busy:.0f} s"
            return (
                f"less than {size(LEAST)} of its files moved in {patience_text} while "
                f"{transfer.verb}"
            )
        stderr = transfer.close()
        if isinstance(error, ConnectionError) and stderr:
            return printable(last_line(stderr))
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            return printable(f"{error.filename}: {error.strerror}" if error.filename else reason)
        if isinstance(error, ValueError):
            return printable(str(error))
        return printable(f"its answer is none: {error!r}")

    def _find_sources(self, digests: DigestCache) -> list[UploadSource]:
        """Return the files to upload, with their digests. Raises: PlanError, TransferStopped."""
        next_report = time.monotonic() + REPORTED

        def on_progress() -> None:
            nonlocal next_report
            if self._stopped.is_set():
                raise TransferStopped("the upload was stopped before its end")
            if time.monotonic() >= next_report:
                self._tell(SESSION, "reading what is to be uploaded")
                next_report += REPORTED

        found_sources = sources.find_sources(self._plan.uploads, on_progress)
        size_remark = sources.remark_if_large(found_sources)
        if size_remark:
            self._tell(SESSION, size_remark)
        return [
            sources.with_digest(found_source, digests, on_progress)
            for found_source in found_sources
        ]
