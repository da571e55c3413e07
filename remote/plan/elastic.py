"""What torchrun gives a user's own program beyond its place among the ranks. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from remote.plan.plan import NO_PYTHON, Plan, Script, Slot
from training.agent.layout import ERRORS
from training.place import ERROR_FILE
from training.wire.events import Hello

Variables = dict[str, int | str]

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
"""The signals that torchrun passes on to its ranks."""
WATCH = "RANKBOARD_WATCH"
"""Makes our sitecustomize watch torch."""
PYTHON = re.compile(r"python[\d.]*")
OPTIONS = re.compile(r"-[bBdEhiIOPqsSuvVx]+")
"""Those of Python that have no value."""


def named(plan: Plan) -> Variables:
    """What `env` of a host may replace."""
    return {"ROLE_NAME": "default", "TORCHELASTIC_RUN_ID": plan.run}


def certain(plan: Plan, slot: Slot, hello: Hello | None, attempt: int) -> Variables:
    """What nothing may replace. `hello` has the facts of the rank's host, once it was asked.

    Rank 0 hosts the store itself, unlike with torchrun: an agent never imports torch.
    """
    folder = hello.folder if hello else plan.folder(slot.host)
    watched: Variables = {WATCH: 1} if isinstance(plan.work, Script) and plan.work.watch else {}
    return watched | {
        "ROLE_RANK": slot.rank,
        "ROLE_WORLD_SIZE": plan.world_size,
        "TORCHELASTIC_RESTART_COUNT": attempt,
        "TORCHELASTIC_MAX_RESTARTS": plan.policy.max_restarts,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": SIGNALS,
        ERROR_FILE: f"{folder}/{ERRORS}/{attempt}-{slot.rank}.json",
    }


def defaults(hello: Hello | None) -> Variables:
    """What counts only where the host has nothing else. `hello` is as of `certain`."""
    found: Variables = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": 1}
    return found | dict(
        pair for one in FRAMEWORKS if hello and one.is_on(hello) for pair in one.env
    )


@dataclass(frozen=True)
class Framework:
    """What a framework misses on hosts where this is so, and `why` it is given that. `package` is
    that of the framework."""

    package: str
    is_on: Callable[[Hello], bool]
    env: tuple[tuple[str, int | str], ...]
    why: str

    def is_told(self, hello: Hello) -> bool:
        """Whether a person is told of it: the program could be read, and names the package."""
        return self.is_on(hello) and bool(hello.unnamed) and self.package not in hello.unnamed


FRAMEWORKS = (
    Framework(
        "accelerate",
        lambda hello: "accelerate" in hello.packages and not (hello.gpus or hello.accelerator),
        (("ACCELERATE_USE_CPU", "true"),),
        "without a GPU, the ranks of Accelerate would train each for itself otherwise",
    ),
    Framework(
        "lightning",
        lambda hello: (
            "rich" in hello.packages
            and "lightning" not in hello.unnamed
            and bool({"lightning", "pytorch_lightning"}.intersection(hello.packages))
        ),
        (("TTY_COMPATIBLE", 1), ("COLUMNS", 240)),
        "the progress bar of Lightning would be silent otherwise",
    ),
)


def unwatched(script: Script) -> str:
    """The option of Python for which a program is not watched, as in `python -I train.py`: it keeps
    Python from our sitecustomize. "" if there is none."""
    words = [word for word in script.words if word != NO_PYTHON]
    if not PYTHON.fullmatch(posixpath.basename(words[0])):
        return ""
    options = takewhile(OPTIONS.fullmatch, words[1:])
    return next((f"-{one}" for word in options for one in word if one in "IES"), "")


def remarks(plan: Plan, facts: Sequence[Hello | None]) -> list[str]:
    """What the ranks are given because of a framework that is installed, one line each, where the
    program's file names it. And that torch is not watched, where this is so."""
    if not isinstance(plan.work, Script):
        return []
    found = []
    if plan.work.watch and (option := unwatched(plan.work)):
        found.append(f"python {option}: torch is not watched, all values come from the log")
    for one in FRAMEWORKS:
        names = [
            host.name
            for host, hello in zip(plan.hosts, facts, strict=True)
            if hello and one.is_told(hello) and not dict(one.env).keys() & dict(host.env).keys()
        ]
        if names:
            env = " ".join(f"{name}={value}" for name, value in one.env)
            found.append(f"{env} on {', '.join(names)}: {one.why}")
    return found
