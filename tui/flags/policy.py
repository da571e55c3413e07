"""Declare the flags of the policy: what a run does after failures and disconnects."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.plan.plan import OnNan, OnStall, PlanError, Policy
from training.mistake import Mistake
from tui.flags.common import FAILURES, WHOLE_NUMBER


@Parameter(name="*", group=FAILURES)
@dataclass(frozen=True)
class PolicyFlags:
    """The flags of the policy; but for `on_disconnect`, each is a field of `Policy`."""

    on_disconnect: Annotated[
        Literal["keep", "stop"] | None,
        Parameter(
            metavar="ACTION",
            help="keep the run going or stop it if the launcher or its connection is lost: keep, "
            "stop (default: stop; in the dashboard over SSH: keep)",
        ),
    ] = None
    doctor: Annotated[
        bool,
        Parameter(negative="--no-doctor", help="check the hosts before the start (default: on)"),
    ] = True
    start_timeout: Annotated[
        float,
        Parameter(
            metavar="SECONDS",
            validator=Number(gte=0),
            help="stop the run if a rank makes no first step within this time (0: no limit)",
        ),
    ] = 0.0
    on_stall: Annotated[
        OnStall,
        Parameter(
            metavar="ACTION",
            help="what to do when ranks stop making progress: report, stop, restart (default: "
            "report)",
        ),
    ] = OnStall.REPORT
    on_nan: Annotated[
        OnNan,
        Parameter(
            metavar="ACTION",
            help="what to do when a loss is NaN or infinite: warn, stop (default: warn)",
        ),
    ] = OnNan.WARN
    max_restarts: Annotated[
        int,
        WHOLE_NUMBER,
        Parameter(
            metavar="N",
            validator=Number(gte=0),
            help="restart a failed run up to N times, from its last checkpoint",
        ),
    ] = 0
    min_nodes: Annotated[
        int,
        WHOLE_NUMBER,
        Parameter(
            name="--min-hosts",
            metavar="K",
            validator=Number(gte=0),
            help="restart without lost hosts while K hosts are left (0: only with all hosts)",
        ),
    ] = 0
    # --fetch alone names the files of a script.
    fetch: Annotated[
        bool,
        Parameter(
            name="--fetch-checkpoints",
            negative="--no-fetch",
            help="copy checkpoints back from the hosts at the end (default: on)",
        ),
    ] = True


def make_policy(flags: PolicyFlags, keep: bool) -> Policy:
    """Make the policy of these flags. `keep` is the default of --on-disconnect. Raises: PlanError,
    with all mistakes."""
    mistakes = []
    restarts_hint = "add --max-restarts 1, or another number"
    if flags.on_stall is OnStall.RESTART and not flags.max_restarts:
        problem_text = "--on-stall restart needs a limit"
        mistakes.append(Mistake(problem=problem_text, hint=restarts_hint, about="--on-stall"))
    if flags.min_nodes and not flags.max_restarts:
        problem_text = f"--min-hosts {flags.min_nodes} applies to restarts"
        mistakes.append(Mistake(problem=problem_text, hint=restarts_hint, about="--min-hosts"))
    if mistakes:
        raise PlanError(*mistakes)
    policy_settings = asdict(flags)
    on_disconnect = policy_settings.pop("on_disconnect")
    if on_disconnect:
        keep = on_disconnect == "keep"
    return Policy(keep=keep, **policy_settings)
