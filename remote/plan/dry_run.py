"""A plan as text, for a person to read before the start. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from remote.cluster.hosts import Host
from remote.format import count
from remote.plan.place import place, place_before
from remote.plan.plan import Plan
from training.job import Job
from training.wire.commands import Placement, stand_in

NO_SYNC = "none"
"""The method of a single rank."""


def dry_run(plan: Plan) -> str:
    """Return the plan as text: every rank's host, command and environment, as far as they are known
    before a host is asked."""
    master_host = plan.hosts[0]
    master_address = master_host.address
    if master_host.interface:
        master_address = f"<address of {master_host.interface} on {master_host.name}>"
    master_port = master_host.master_port or f"<chosen on {master_host.name}>"
    world_text = f"{count(plan.world_size, 'rank')} on {count(len(plan.hosts), 'host')}"
    text_lines = [
        f"{world_text}, for example as run {plan.run} (each start makes a new name)",
        *notes(plan),
    ]
    text_lines.append(f"every rank: {plan.work.command_line()}")
    # Their values are secrets, which no screen shows.
    variable_stand_ins = {name: stand_in(name) for host in plan.hosts for name in host.env_from}
    host_placements = place(
        plan, [None] * len(plan.hosts), master_address, master_port, variable_stand_ins
    )
    for index, (host, placements) in enumerate(zip(plan.hosts, host_placements, strict=True)):
        login_name = f"{host.user}@{host.address}" if host.user else host.address
        text_lines.append(f"\n{host.name}  {login_name}  {host.python}  {host.workdir}")
        for upload in plan.uploads:
            upload_target = posixpath.join(plan.cwd(index), upload.target)
            text_lines.append(f"  upload {upload.source} to {upload_target}")
        if plan.script and plan.script.before:
            text_lines.append(f"  before: {place_before(plan, index, placements[0]).argv[-1]}")
        for placement in placements:
            variables = dict(placement.defaults) | dict(placement.env)
            environment_text = " ".join(
                f"{name}={_quote(value)}" for name, value in variables.items()
            )
            text_lines.append(f"  rank {placement.rank}: {environment_text}")
            command_line = _own_command(plan, placement, host)
            if command_line:
                text_lines.append(f"    {command_line}")
    return "\n".join(text_lines)


def _own_command(plan: Plan, placement: Placement, host: Host) -> str:
    """Return the command line of a rank if it has values of its own; "" if all have the same."""
    if not plan.script:
        return ""
    folder_text = f"cd {shlex.quote(placement.cwd)} && " if placement.cwd else ""
    is_shared = placement.argv == plan.script.argv(host.python, {})
    return "" if is_shared and not folder_text else folder_text + shlex.join(placement.argv)


def _quote(variable_value: str) -> str:
    """Quote a value if it would not be clear where it begins and ends, as with that of
    NCCL_SOCKET_IFNAME."""
    return (
        f"'{variable_value}'"
        if variable_value.startswith("=") or " " in variable_value
        else variable_value
    )


def notes(plan: Plan) -> list[str]:
    """Say what a user should know of the plan before it starts, one line each."""
    if not plan.job:
        return []
    return [*_note_isolation(plan, plan.job), *_note_uneven_batch(plan, plan.job)]


def _note_isolation(plan: Plan, job: Job) -> Iterator[str]:
    """Yield that ranks which exchange nothing are no data-parallel training, if so."""
    if job.sync != NO_SYNC or plan.world_size == 1:
        return
    advice = "; --num-hosts 1 trains on one host" if len(plan.hosts) > 1 else ""
    yield f"sync none: {plan.world_size} ranks train a model each, and exchange nothing{advice}"


def _note_uneven_batch(plan: Plan, job: Job) -> Iterator[str]:
    """Yield the shares of the ranks, if the batch cannot be split evenly."""
    batch_size = job.batch_size
    trainers = job.trainers(plan.world_size)
    least_share, remainder = divmod(batch_size, len(trainers))
    if not remainder:
        return
    ranks_text = f"{len(trainers)} ranks"
    if len(trainers) < plan.world_size:
        ranks_text += " that train"
    shares_text = f"some take {least_share + 1} samples, the others {least_share}"
    yield f"batch size {batch_size} does not divide by {ranks_text}: {shares_text}"
