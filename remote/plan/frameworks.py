"""What a user's own program is given because of its framework, and what is said of that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from remote.plan.elastic import Variables
from remote.plan.main_program import NO_PYTHON
from remote.plan.plan import Plan, Script
from remote.plan.python_line import python_line
from training.wire.host_events import Hello


@dataclass(frozen=True)
class Framework:
    """What a framework misses on some hosts, and is given there."""

    package: str
    """The package of the framework."""
    is_on: Callable[[Hello], bool]
    """Returns True for the facts of a host where it is needed."""
    env: tuple[tuple[str, int | str], ...]
    """What it is given."""
    why: str
    """Why, in words."""

    def is_told(self, hello: Hello) -> bool:
        """Return True if a person is told of it: the script could be read, and names the
        package."""
        return self.is_on(hello) and bool(hello.unnamed) and self.package not in hello.unnamed


FRAMEWORKS = (
    Framework(
        "accelerate",
        lambda hello: "accelerate" in hello.packages and not (hello.gpus or hello.accelerator),
        (("ACCELERATE_USE_CPU", "true"),),
        "otherwise, without a GPU, each rank of Accelerate would train alone",
    ),
    Framework(
        "lightning",
        lambda hello: (
            "rich" in hello.packages
            and "lightning" not in hello.unnamed
            and bool({"lightning", "pytorch_lightning"}.intersection(hello.packages))
        ),
        (("TTY_COMPATIBLE", 1), ("COLUMNS", 240)),
        "otherwise, the progress bar of Lightning would print nothing",
    ),
)


def defaults(hello: Hello | None) -> Variables:
    """Return the variables that count only if the host has nothing else. `hello` has the facts of
    the host, once it was asked."""
    variables: Variables = {}
    for framework in FRAMEWORKS:
        if hello and framework.is_on(hello):
            variables.update(framework.env)
    return variables


def unwatched(script: Script) -> str:
    """Return the option of Python that keeps a script from being watched, as in `python -I
    train.py`: Python then loads no sitecustomize of ours. "" if there is none."""
    python_words = python_line([word for word in script.words if word != NO_PYTHON])
    python_options = python_words.options if python_words else ()
    return next((option for option in python_options if option in ("-I", "-E", "-S")), "")


def remarks(plan: Plan, facts: Sequence[Hello | None]) -> list[str]:
    """Say what the ranks are given because of a framework that is installed, one line each, if the
    script's file names it; and that torch is not watched, if so."""
    if not plan.script:
        return []
    remark_texts: list[str] = []
    isolating_option = unwatched(plan.script)
    if plan.script.watch and isolating_option:
        remark_texts.append(
            f"python {isolating_option}: torch is not watched, all values come from the log"
        )
    for framework in FRAMEWORKS:
        given_variables = dict(framework.env)
        host_names: list[str] = []
        for host, hello in zip(plan.hosts, facts, strict=True):
            # What the user has set for the host counts, so there is nothing to tell.
            sets_itself = bool(given_variables.keys() & dict(host.env).keys())
            if hello and framework.is_told(hello) and not sets_itself:
                host_names.append(host.name)
        if host_names:
            environment_text = " ".join(
                f"{name}={value}" for name, value in given_variables.items()
            )
            remark_texts.append(f"{environment_text} on {', '.join(host_names)}: {framework.why}")
    return remark_texts
