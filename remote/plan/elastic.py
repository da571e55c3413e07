"""What torchrun gives a user's own program beyond its place among the ranks. Pure."""

from __future__ import annotations

from remote.plan.plan import Plan, Slot
from training.agent.layout import ERRORS
from training.place import ERROR_FILE
from training.wire.host_events import Hello

Variables = dict[str, int | str]

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
"""The signals that torchrun passes on to its ranks."""
WATCH = "RANKBOARD_WATCH"
"""Makes our sitecustomize watch torch."""
DEFAULTS: Variables = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": 1}
"""What counts only where the host has nothing else."""


def replaceable(plan: Plan) -> Variables:
    """Return the variables that `env` of a host may replace."""
    return {"ROLE_NAME": "default", "TORCHELASTIC_RUN_ID": plan.run}


def fixed(plan: Plan, slot: Slot, hello: Hello | None, attempt: int) -> Variables:
    """Return the variables that nothing may replace. `hello` has the facts of the rank's host, once
    it was asked.

    Rank 0 hosts the store itself, unlike with torchrun: an agent never imports torch.
    """
    # The host knows its workdir with `~` expanded.
    run_folder = hello.folder if hello else plan.folder(slot.host)
    watch_variables: Variables = {WATCH: 1} if plan.script and plan.script.watch else {}
    return watch_variables | {
        "ROLE_RANK": slot.rank,
        "ROLE_WORLD_SIZE": plan.world_size,
        "TORCHELASTIC_RESTART_COUNT": attempt,
        "TORCHELASTIC_MAX_RESTARTS": plan.policy.max_restarts,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": SIGNALS,
        ERROR_FILE: f"{run_folder}/{ERRORS}/{attempt}-{slot.rank}.json",
    }
