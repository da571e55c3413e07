"""A plan as text, for a person to read before the start. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from remote.format import count
from remote.plan.place import place
from remote.plan.plan import Plan
from training.wire.commands import stand_in


def dry_run(plan: Plan) -> str:
    """Return the plan as text: every rank's host, command and environment, as far as they are known
    before a host is asked."""
    master = plan.hosts[0]
    address = (
        master.address
        if not master.interface
        else f"<address of {master.interface} on {master.name}>"
    )
    port = master.master_port or f"<chosen on {master.name}>"
    size = f"{count(plan.world_size, 'rank')} on {count(len(plan.hosts), 'host')}"
    lines = [f"{size}, for example as run {plan.run} (each start makes a new name)", *notes(plan)]
    lines.append(f"every rank: {plan.work.command_line()}")
    hidden = {name: stand_in(name) for host in plan.hosts for name in host.env_from}
    placed = place(plan, [None] * len(plan.hosts), address, port, hidden)
    for index, (host, placements) in enumerate(zip(plan.hosts, placed, strict=True)):
        lines.append(
            f"\n{host.name}  {host.user + '@' if host.user else ''}{host.address}  {host.python}  "
            f"{host.workdir}"
        )
        lines += [
            f"  upload {one.source} to {posixpath.join(plan.cwd(index), one.target)}"
            for one in plan.uploads
        ]
        for placement in placements:
            env = " ".join(
                f"{key}={_quoted(value)}"
                for key, value in (dict(placement.defaults) | dict(placement.env)).items()
            )
            lines.append(f"  rank {placement.rank}: {env}")
    return "\n".join(lines)


def _quoted(value: str) -> str:
    """Quote a value if it would not be clear where it begins and ends, as with that of
    NCCL_SOCKET_IFNAME."""
    return f"'{value}'" if value.startswith("=") or " " in value else value


def notes(plan: Plan) -> tuple[str, ...]:
    """Say what a user should know of the plan before it starts, one line each."""
    job = plan.job
    if not job or not (trainers := job.trainers(plan.world_size)):
        return ()
    share, more = divmod(job.batch_size, len(trainers))
    if not more:
        return ()
    first = f"rank {trainers[0]} takes" if more == 1 else f"ranks {_listed(trainers[:more])} take"
    ranks = f"{len(trainers)} ranks{' that train' if len(trainers) < plan.world_size else ''}"
    return (
        f"batch size {job.batch_size} does not divide by {ranks}: "
        f"{first} {share + 1} samples{'' if more == 1 else ' each'}, the others {share}",
    )


def _listed(ranks: Sequence[int]) -> str:
    """List ranks in order: all between the first and the last, but for those that are left out."""
    first = ranks[0]
    last = ranks[-1]
    without = ", ".join(str(rank) for rank in range(first, last) if rank not in ranks)
    return f"{first} to {last}{f' but {without}' if without else ''}"
