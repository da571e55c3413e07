"""What a user can do about a failure of which the fields of its cause tell, with what is known only
here: the environment of whoever looks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from remote.cluster.hosts import Host
from remote.plan.plan import NO_PYTHON, Plan, Script
from remote.run.state.types import Cause, MissingOptions, MissingVariable
from remote.transport.registry import load_transport

SHELLS = ("sh", "bash", "zsh", "dash")
VARIABLES = {
    "-r": "$RANK",
    "--rank": "$RANK",
    "--global-rank": "$RANK",
    "--local-rank": "$LOCAL_RANK",
    "--node-rank": "$GROUP_RANK",
    "--machine-rank": "$GROUP_RANK",
    "--world-size": "$WORLD_SIZE",
    "--num-nodes": "$WORLD_SIZE",
    "--nnodes": "$WORLD_SIZE",
    "--num-processes": "$WORLD_SIZE",
    "--nprocs": "$WORLD_SIZE",
    "--size": "$WORLD_SIZE",
    "--master": "$MASTER_ADDR",
    "--master-ip": "$MASTER_ADDR",
    "--master-addr": "$MASTER_ADDR",
    "--master-address": "$MASTER_ADDR",
    "--port": "$MASTER_PORT",
    "--master-port": "$MASTER_PORT",
    "--init-method": "tcp://$MASTER_ADDR:$MASTER_PORT",
    "--dist-url": "tcp://$MASTER_ADDR:$MASTER_PORT",
}
"""The options by which scripts are told their place among the ranks, with dashes for underscores,
and what each is for a rank."""


def failure_advice(cause: Cause, plan: Plan, environment: Mapping[str, str] = os.environ) -> str:
    """Say what to do about a failure, in one line; "" where that is not known.

    `environment` is that of the shell of whoever looks. No value of it is told.
    """
    if cause.advice or not isinstance(plan.work, Script):
        return cause.advice
    if isinstance(cause.lack, MissingVariable):
        cause_hosts = [host for host in plan.hosts if host.name == cause.host]
        is_withheld = any(_withholds(host, cause.lack.name) for host in cause_hosts)
        # A variable that the user's shell lacks, too, is a mistake of another kind.
        if is_withheld and cause.lack.name in environment:
            return _pass_variable(cause.lack.name, plan.hosts_file)
    if isinstance(cause.lack, MissingOptions):
        return _give_place(cause.lack, plan.work)
    return ""


def _withholds(host: Host, name: str) -> bool:
    """Return True if ranks of the host lack a variable that the user's shell may have."""
    is_passed = name in dict(host.env) or name in host.env_from
    return not is_passed and not load_transport(host.transport).shares_environment


def _pass_variable(name: str, hosts_file: str) -> str:
    return (
        f"{name} is set in your shell, but ranks do not get its variables: write "
        f'env_from = ["{name}"] in [defaults] of {hosts_file}, or put {name}=… after --, '
        "before the program"
    )


def _give_place(lack: MissingOptions, script: Script) -> str:
    """Say how to give each rank its options, if they are those of its place among the ranks."""
    # The last of its names is mostly the long one, which says more.
    option_values = {names[-1]: _option_value(names) for names in lack.options}
    if "$GROUP_RANK" in option_values.values():  # then nodes are counted, and not ranks
        for option in ("--num-nodes", "--num_nodes", "--nnodes"):
            option_values |= {option: "$GROUP_WORLD_SIZE"} if option in option_values else {}
    option_text = " ".join(f"{option} {value}" for option, value in option_values.items() if value)
    if not option_text:
        return ""
    shell_line = f"{_shell_command(script)} {option_text}"
    # In single quotes, so that a user's own shell does not put in its variables.
    quoted_line = shlex.quote(shell_line) if "'" in shell_line else f"'{shell_line}'"
    return f"each rank finds its place in variables; write -- bash -c {quoted_line}"


def _option_value(names: tuple[str, ...]) -> str:
    """Return what a rank has to be given for an option of these names; "" where that is not
    known."""
    known_variables = (VARIABLES.get(name.lower().replace("_", "-"), "") for name in names)
    return next(filter(None, known_variables), "")


def _shell_command(script: Script) -> str:
    """Return the program and its arguments as a shell on a host would take them."""
    shell_words = [word for word in script.words if word != NO_PYTHON]
    # A line alone: words behind it would be its $0, $1 and so on.
    if shell_words[0] in SHELLS and shell_words[1:2] == ["-c"] and len(shell_words) == 3:
        return shell_words[2]
    if shell_words[0] == "-m" or shell_words[0].endswith(".py"):
        shell_words = ["python3", *shell_words]
    return shlex.join(shell_words)
