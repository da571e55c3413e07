"""Whether the software of a host is that of the others: Python, torch, torchvision, our own
code."""

from __future__ import annotations

import re
from functools import cache

from remote.doctor.check import FAILED, OK, WARNING, Facts, Found
from remote.plan.plan import Plan
from remote.transport.bootstrap.archive import archive
from training import registry
from training.wire.events import Hello


def python(facts: Facts, index: int) -> Found:
    """The version of Python, of which the first two numbers count."""
    hello = facts.hello(index)
    usual = facts.usual(_minor)
    if _minor(hello) == usual:
        return Found(OK, hello.python)
    return Found(
        WARNING,
        f"{hello.python}, but {usual} on {facts.names(lambda one: _minor(one) == usual)}",
        f"set python in {facts.plan.hosts_file} to a Python {usual} there, as python = "
        f'"/usr/bin/python{usual}"',
    )


def _minor(hello: Hello) -> str:
    return ".".join(hello.python.split(".")[:2])


def torch(facts: Facts, index: int) -> Found:
    """The version of torch and what it was built for. A user's script may do without, where all
    hosts do."""
    hello = facts.hello(index)
    usual = facts.usual(_torch)
    if not hello.torch and (facts.plan.job or usual):
        return Found(
            FAILED,
            f"{hello.executable} (Python {hello.python}) has no torch",
            _install(facts, hello, "torch torchvision") + _or_other_python(facts),
        )
    if _torch(hello) != usual:
        return Found(
            FAILED,
            f"torch {hello.torch or 'none'}, but {usual or 'none'} on "
            f"{facts.names(lambda one: _torch(one) == usual)}",
            _install(facts, hello, f"torch=={usual}", f" --torch {usual}")
            + _or_other_python(facts),
        )
    return _backend(facts, hello)


def _install(facts: Facts, hello: Hello, packages: str, options: str = "") -> str:
    """Say how to install packages on a host. `rankboard setup` comes first: the Python of a system
    such as Debian refuses what pip would put beside its own packages."""
    by_hand = f"{hello.executable} -m pip install {packages}"
    if facts.plan.is_local:
        return f"install it with {by_hand}"
    setup = f"rankboard setup{facts.plan.hosts_option}{options}"
    return (
        f"{setup} installs it on all hosts; by hand, in an environment of your own there: {by_hand}"
    )


def _or_other_python(facts: Facts) -> str:
    return f"; or set python in {facts.plan.hosts_file} to one that has it"


def _torch(hello: Hello) -> str:
    """The version without what it was built for, as in 2.14.1+cpu."""
    return hello.torch.partition("+")[0]


def _backend(facts: Facts, hello: Hello) -> Found:
    """Builds for different GPUs cannot talk to each other on them; where no host has one, all do on
    CPUs."""
    usual = facts.usual(lambda one: one.backends)
    if hello.backends == usual or not any(facts.hello(index).gpus for index in facts.reached):
        return Found(OK, hello.torch or "none")
    own, theirs = (", ".join(backends) or "CPUs only" for backends in (hello.backends, usual))
    outcome = FAILED if hello.backends and usual else WARNING
    return Found(
        outcome,
        f"torch {hello.torch} is built for {own}, but for {theirs} on "
        f"{facts.names(lambda one: one.backends == usual)}",
        "install the same build of torch everywhere"
        + ("" if outcome == FAILED else "; as it is, all ranks train on CPUs"),
    )


def torchvision(facts: Facts, index: int) -> Found:
    """Torchvision, where the job has a use for it: a model of its own, or a data set whose files
    may have to be fetched."""
    hello = facts.hello(index)
    needs = torchvision_needed(facts.plan)
    if hello.torchvision:
        return Found(OK, hello.torchvision)
    install = _install(facts, hello, "torchvision")
    if needs == "model":
        return Found(FAILED, "no torchvision, which provides the model", install)
    if hello.data_missing:
        return Found(FAILED, "no torchvision to download the data set with", install)
    return Found(
        WARNING,
        "no torchvision; the data set needs it, unless its files are already there",
        install,
    )


def torchvision_needed(plan: Plan) -> str:
    """What of the job is torchvision's: `model`, `dataset` or nothing."""
    job = plan.job
    if not job:
        return ""
    if job.model.startswith("torchvision/"):
        return "model"
    module = re.split(r"\W", job.dataset)[0]
    return "dataset" if _imports_torchvision(module) else ""


@cache
def _imports_torchvision(module: str) -> bool:
    """Whether a data set's module, or one of the folder's own that it imports, says torchvision."""
    path = registry.ROOT / "datasets" / f"{module}.py"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    shared = re.findall(
        r"\b_\w+\b",
        "\n".join(re.findall(r"^from training\.datasets import .*$", text, re.MULTILINE)),
    )
    return bool(re.search(r"^\s*(from|import) torchvision", text, re.MULTILINE)) or any(
        map(_imports_torchvision, shared)
    )


def code(facts: Facts, index: int) -> Found:
    """The files of rankboard that run there are this machine's, and there are no others beside
    them. A host that has said Hello has compared them with their digest at this start, in a folder
    that no other user may write: see `remote.transport.bootstrap`."""
    if facts.hello(index).code_changed:
        return Found(
            WARNING,
            f"{archive().count} files, sent again: those in its workdir had been changed",
            "see who or what changes files there",
        )
    return Found(OK, f"{archive().count} files")
