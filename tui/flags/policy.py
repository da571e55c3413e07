"""The options of the policy: what a run does after failures and disconnects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import typer

from remote.plan.plan import OnNan, OnStall, PlanError, Policy
from training.mistake import Mistake
from tui.flags.group import with_group

_option = partial(typer.Option, rich_help_panel="Failures and disconnects")


def declared(
    on_disconnect: Annotated[
        Literal["keep", "stop"] | None,
        _option(
            metavar="ACTION",
            help="keep the run going or stop it if the launcher or its connection is lost: keep, "
            "stop",
            show_default="stop; in the dashboard over SSH: keep",
        ),
    ] = None,
    doctor: Annotated[bool, _option(help="check the hosts before the start")] = True,
    start_timeout: Annotated[
        float,
        _option(
            metavar="SECONDS",
            min=0,
            help="stop the run if a rank makes no first step within this time (0: no limit)",
        ),
    ] = 0.0,
    on_stall: Annotated[
        OnStall,
        _option(
            metavar="ACTION",
            help="what to do when ranks stop making progress: report, stop, restart",
        ),
    ] = OnStall.REPORT,
    on_nan: Annotated[
        OnNan,
        _option(metavar="ACTION", help="what to do when a loss is NaN or infinite: warn, stop"),
    ] = OnNan.WARN,
    max_restarts: Annotated[
        int,
        _option(
            metavar="N",
            min=0,
            help="restart a failed run up to N times, from its last checkpoint",
        ),
    ] = 0,
    min_nodes: Annotated[
        int,
        _option(
            metavar="K",
            min=0,
            help="restart without lost hosts while K hosts are left (0: only with all hosts)",
        ),
    ] = 0,
    fetch: Annotated[
        bool, _option(" /--no-fetch", help="copy checkpoints back from the hosts at the end")
    ] = True,
) -> None:
    """The parameters are the options."""


def with_policy_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `policy_flags` of a command by one option per setting."""
    return with_group(command, "policy_flags", declared)


def policy(flags: Mapping[str, Any], keep: bool) -> Policy:
    """Make the policy of these options. `keep` is the default of --on-disconnect.

    Raises: PlanError.
    """
    settings = dict(flags)
    wanted = settings.pop("on_disconnect")
    mistakes = []
    if settings["on_stall"] is OnStall.RESTART and not settings["max_restarts"]:
        what = "--on-stall restart needs a limit"
        hint = "add --max-restarts 1, or another number"
        mistakes.append(Mistake(problem=what, hint=hint, about="--on-stall"))
    if settings["min_nodes"] and not settings["max_restarts"]:
        what = f"--min-nodes {settings['min_nodes']} applies to restarts"
        hint = "add --max-restarts 1, or another number"
        mistakes.append(Mistake(problem=what, hint=hint, about="--min-nodes"))
    if mistakes:
        raise PlanError(*mistakes)
    return Policy(keep=wanted == "keep" if wanted else keep, **settings)
