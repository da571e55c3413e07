"""The options of the policy: what a run does after failures and disconnects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import typer

from remote.plan.plan import OnNan, OnStall, PlanError, Policy
from tui.flags.group import with_group

PANEL = "Failures and disconnects"


def _flags(
    on_disconnect: Annotated[
        Literal["keep", "stop"] | None,
        typer.Option(
            metavar="ACTION",
            help="keep the run going or stop it if the launcher or its connection is lost: keep, "
            "stop (default: stop; in the dashboard over SSH: keep)",
            rich_help_panel=PANEL,
        ),
    ] = None,
    doctor: Annotated[
        bool, typer.Option(help="check the hosts before the start", rich_help_panel=PANEL)
    ] = True,
    start_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="stop the run if a rank makes no first step within this time (0: no limit)",
            rich_help_panel=PANEL,
        ),
    ] = 0.0,
    on_stall: Annotated[
        OnStall,
        typer.Option(
            metavar="ACTION",
            help="what to do when ranks stop making progress: report, stop, restart",
            rich_help_panel=PANEL,
        ),
    ] = OnStall.REPORT,
    on_nan: Annotated[
        OnNan,
        typer.Option(
            metavar="ACTION",
            help="what to do when a loss is NaN or infinite: warn, stop",
            rich_help_panel=PANEL,
        ),
    ] = OnNan.WARN,
    max_restarts: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="restart a failed run up to N times, from its last checkpoint",
            rich_help_panel=PANEL,
        ),
    ] = 0,
    min_nodes: Annotated[
        int,
        typer.Option(
            metavar="K",
            min=0,
            help="restart without lost hosts while K hosts are left (0: only with all hosts)",
            rich_help_panel=PANEL,
        ),
    ] = 0,
    fetch: Annotated[
        bool,
        typer.Option(help="copy checkpoints back from the hosts at the end", rich_help_panel=PANEL),
    ] = True,
) -> None:
    """The parameters are the options."""


def with_policy_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `policy_flags` of a command by one option per setting."""
    return with_group(command, "policy_flags", _flags)


def policy(flags: Mapping[str, Any], keep: bool) -> Policy:
    """Make the policy of these options. `keep` is the default of --on-disconnect.

    Raises: PlanError.
    """
    settings = dict(flags)
    wanted = settings.pop("on_disconnect")
    if settings["on_stall"] is OnStall.RESTART and not settings["max_restarts"]:
        raise PlanError("--on-stall restart needs a limit: add --max-restarts 1, or another number")
    if settings["min_nodes"] and not settings["max_restarts"]:
        raise PlanError(
            f"--min-nodes {settings['min_nodes']} applies to restarts: add --max-restarts 1, or "
            "another number"
        )
    return Policy(keep=wanted == "keep" if wanted else keep, **settings)
