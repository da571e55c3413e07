"""A plan as text, for a person to read before the start. Pure."""

from __future__ import annotations

import posixpath

from remote.format import count
from remote.plan.place import place
from remote.plan.plan import Plan
from training.wire.commands import stand_in


def dry_run(plan: Plan) -> str:
    """Return the plan as text: every rank's host, command and environment, as far as they are known
    before a host is asked."""
    master = plan.hosts[0]
    address = master.address
    if master.interface:
        address = f"<address of {master.interface} on {master.name}>"
    port = master.master_port or f"<chosen on {master.name}>"
    size = f"{count(plan.world_size, 'rank')} on {count(len(plan.hosts), 'host')}"
    lines = [f"{size}, for example as run {plan.run} (each start makes a new name)", *notes(plan)]
    lines.append(f"every rank: {plan.work.command_line()}")
    hidden = {name: stand_in(name) for host in plan.hosts for name in host.env_from}
    placed = place(plan, [None] * len(plan.hosts), address, port, hidden)
    for index, (host, placements) in enumerate(zip(plan.hosts, placed, strict=True)):
        login = f"{host.user}@{host.address}" if host.user else host.address
        lines.append(f"\n{host.name}  {login}  {host.python}  {host.workdir}")
        for upload in plan.uploads:
            target = posixpath.join(plan.cwd(index), upload.target)
            lines.append(f"  upload {upload.source} to {target}")
        for placement in placements:
            variables = dict(placement.defaults) | dict(placement.env)
            env = " ".join(f"{name}={_quote(value)}" for name, value in variables.items())
            lines.append(f"  rank {placement.rank}: {env}")
    return "\n".join(lines)


def _quote(value: str) -> str:
    """Quote a value if it would not be clear where it begins and ends, as with that of
    NCCL_SOCKET_IFNAME."""
    return f"'{value}'" if value.startswith("=") or " " in value else value


def notes(plan: Plan) -> list[str]:
    """Say what a user should know of the plan before it starts, one line each."""
    if not plan.job:
        return []
    batch_size = plan.job.batch_size
    trainers = plan.job.trainers(plan.world_size)
    share, remainder = divmod(batch_size, len(trainers))
    if not remainder:
        return []
    ranks = f"{len(trainers)} ranks"
    if len(trainers) < plan.world_size:
        ranks += " that train"
    some = f"some take {share + 1} samples, the others {share}"
    return [f"batch size {batch_size} does not divide by {ranks}: {some}"]
