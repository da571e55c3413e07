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
        variable_name: host.name
        for host in reversed(plan.hosts)
        for variable_name in reversed(host.env_from)
    }
    missing_names = [
        variable_name for variable_name in asking_hosts if variable_name not in environ
    ]
    if missing_names:
        names_text = ", ".join(missing_names)
        hosts_text = ", ".join(
            dict.fromkeys(asking_hosts[variable_name] for variable_name in missing_names)
        )
        raise PlanError(
            f"{hosts_text}: env_from names {names_text}, which your environment does not have: "
            f"export {missing_names[0]}=…, or take it out of env_from in {plan.hosts_file}"
        )
    for variable_name in asking_hosts:
        # Python reads bytes that are no UTF-8 as lone surrogates, which JSON to the host would
        # not carry.
        if not _is_text(environ[variable_name]):
            raise PlanError(
                f"{asking_hosts[variable_name]}: the value of {variable_name} in your "
                "environment is no text in UTF-8: export it anew"
            )
    return {variable_name: environ[variable_name] for variable_name in asking_hosts}


def _is_text(variable_value: str) -> bool:
    try:
        variable_value.encode()
    except UnicodeEncodeError:
        return False
    return True
