"""Checks whether the software of a host is that of the others: Python, torch, torchvision, our own
code."""

from __future__ import annotations

import re
from functools import cache

from remote.doctor.host_facts import FAILED, OK, WARNING, HostFacts, HostFinding
from remote.plan.plan import Plan
from remote.transport.bootstrap.archive import build_archive
from training import registry
from training.wire.events import Hello


def check_python(facts: HostFacts, index: int) -> HostFinding:
    """Compare the version of Python, of which the first two numbers count."""
    hello = facts.hello(index)
    usual = facts.usual(_minor_version)
    if _minor_version(hello) == usual:
        return HostFinding(OK, hello.python)
    names = facts.names(lambda other: _minor_version(other) == usual)
    python = f"/usr/bin/python{usual}"
    return HostFinding(
        WARNING,
        f"{hello.python}, but {usual} on {names}",
        f'set python in {facts.plan.hosts_file} to a Python {usual} there, as python = "{python}"',
    )


def _minor_version(hello: Hello) -> str:
    return ".".join(hello.python.split(".")[:2])


def check_torch(facts: HostFacts, index: int) -> HostFinding:
    """Compare the version of torch and what it was built for. A script may do without, if all hosts
    do."""
    hello = facts.hello(index)
    usual = facts.usual(_torch_version)
    if not hello.torch and (facts.plan.job or usual):
        what = f"{hello.executable} (Python {hello.python}) has no torch"
        return HostFinding(FAILED, what, _advise_on_torch(facts, hello, "torch torchvision"))
    if _torch_version(hello) != usual:
        names = facts.names(lambda other: _torch_version(other) == usual)
        what = f"torch {hello.torch or 'none'}, but {usual or 'none'} on {names}"
        advice = _advise_on_torch(facts, hello, f"torch=={usual}", f" --torch {usual}")
        return HostFinding(FAILED, what, advice)
    return _compare_backends(facts, hello)


def _install(facts: HostFacts, hello: Hello, packages: str, options: str = "") -> str:
    """Say how to install packages on a host. `rankboard setup` comes first: the Python of a system
    such as Debian refuses what pip would put beside its own packages."""
    by_hand = f"{hello.executable} -m pip install {packages}"
    if facts.plan.is_local:
        return f"install it with {by_hand}"
    setup = f"rankboard setup{facts.plan.hosts_option}{options}"
    return (
        f"{setup} installs it on all hosts; by hand, in an environment of your own there: {by_hand}"
    )


def _advise_on_torch(facts: HostFacts, hello: Hello, packages: str, options: str = "") -> str:
    install = _install(facts, hello, packages, options)
    return f"{install}; or set python in {facts.plan.hosts_file} to one that has it"


def _torch_version(hello: Hello) -> str:
    """Return the version without what it was built for, as in 2.14.1+cpu."""
    return hello.torch.partition("+")[0]


def _compare_backends(facts: HostFacts, hello: Hello) -> HostFinding:
    """Compare what torch was built for. Builds for different GPUs cannot talk to each other on
    them; if no host has one, all do on CPUs."""
    usual = facts.usual(lambda other: other.backends)
    has_gpus = any(facts.hello(index).gpus for index in facts.reached)
    if hello.backends == usual or not has_gpus:
        return HostFinding(OK, hello.torch or "none")
    own = ", ".join(hello.backends) or "CPUs only"
    theirs = ", ".join(usual) or "CPUs only"
    names = facts.names(lambda other: other.backends == usual)
    what = f"torch {hello.torch} is built for {own}, but for {theirs} on {names}"
    advice = "install the same build of torch everywhere"
    if hello.backends and usual:
        return HostFinding(FAILED, what, advice)
    return HostFinding(WARNING, what, f"{advice}; as it is, all ranks train on CPUs")


def check_torchvision(facts: HostFacts, index: int) -> HostFinding:
    """Check for torchvision, if the job needs it: for its model, or for a data set whose files may
    have to be fetched."""
    hello = facts.hello(index)
    if hello.torchvision:
        return HostFinding(OK, hello.torchvision)
    install = _install(facts, hello, "torchvision")
    if needs_torchvision(facts.plan) == "model":
        return HostFinding(FAILED, "no torchvision, which provides the model", install)
    if hello.data_missing:
        return HostFinding(FAILED, "no torchvision to download the data set with", install)
    what = "no torchvision; the data set needs it, unless its files are already there"
    return HostFinding(WARNING, what, install)


def needs_torchvision(plan: Plan) -> str:
    """Return what of the job is torchvision's: `model`, `dataset` or ""."""
    job = plan.job
    if not job:
        return ""
    if job.model.startswith("torchvision/"):
        return "model"
    module = re.split(r"\W", job.dataset)[0]
    return "dataset" if _imports_torchvision(module) else ""


@cache
def _imports_torchvision(module: str) -> bool:
    """Return True if a data set's module imports torchvision, or one of the folder's own that it
    imports does."""
    path = registry.ROOT / "datasets" / f"{module}.py"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if re.search(r"^\s*(from|import) torchvision", text, re.MULTILINE):
        return True
    imports = re.findall(r"^from training\.datasets import .*$", text, re.MULTILINE)
    shared = re.findall(r"\b_\w+\b", "\n".join(imports))
    return any(_imports_torchvision(name) for name in shared)


def check_code(facts: HostFacts, index: int) -> HostFinding:
    """Check that the files of rankboard there are this machine's. A host that has said Hello has
    compared them with their digest at this start, in a folder that no other user may write: see
    `remote.transport.bootstrap`."""
    files = f"{build_archive().count} files"
    if not facts.hello(index).code_changed:
        return HostFinding(OK, files)
    what = f"{files}, sent again: those in its workdir had been changed"
    return HostFinding(WARNING, what, "see who or what changes files there")
