"""What the hosts of a run have in their journals, read without going near its agents."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from remote.errands import Silent
from remote.plan import Plan
from remote.transport import Errand, Transport, Unreachable
from training.events import Record, decode, expand


def fetch(transport: Transport, plan: Plan, after: Mapping[int, int]) -> tuple[list[Record], list[str]]:
    """The records of all hosts, expanded, in order of time, each host's after the number that is known of it; and why those of
    some hosts are missing."""
    with ThreadPoolExecutor(len(plan.hosts), thread_name_prefix="journal") as pool:
        answers = pool.map(lambda index: _fetch(transport, plan, index, after.get(index, 0)), range(len(plan.hosts)))
        found = list(answers)
    records = [record for lines, _ in found for line in lines.splitlines() if (record := decode(line))]
    records.sort(key=lambda record: record.time)
    return [one for record in records for one in expand(record)], [problem for _, problem in found if problem]


def _fetch(transport: Transport, plan: Plan, index: int, after: int) -> tuple[bytes, str]:
    errand = Errand(("journal", plan.folder(index), str(index), str(after)))
    try:
        line = transport.open(plan.hosts[index], errand, Silent())
    except Unreachable as error:
        return b"", str(error)
    try:
        return b"".join(iter(line.read, b"")), ""
    finally:
        line.close()
