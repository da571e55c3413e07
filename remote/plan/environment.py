"""Variables that hosts.toml hands on from the operator's environment (`env_from`): their values,
and what stands for them.

A value goes into the command that starts a rank, and nowhere else: whatever is shown or recorded
has `[NAME]` in its place.
"""

from __future__ import annotations

from collections.abc import Mapping

from remote.plan.plan import Plan, PlanError


def forwarded(plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """Take the variables that the plan's hosts ask for out of the operator's environment.

    Raises: PlanError, where one is missing, or is no text that would survive the way.
    """
    asking_hosts = {
        name: host.name for host in reversed(plan.hosts) for name in reversed(host.env_from)
    }
    missing = [name for name in asking_hosts if name not in environ]
    if missing:
        names = ", ".join(missing)
        hosts = ", ".join(dict.fromkeys(asking_hosts[name] for name in missing))
        raise PlanError(
            f"{hosts}: env_from names {names}, which your environment does not have: "
            f"export {missing[0]}=…, or take it out of env_from in {plan.hosts_file}"
        )
    for name in asking_hosts:
        if not _is_text(environ[name]):
            raise PlanError(
                f"{asking_hosts[name]}: the value of {name} in your environment is no text in "
                "UTF-8: export it anew"
            )
    return {name: environ[name] for name in asking_hosts}


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
