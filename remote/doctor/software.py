"""Checks whether the software of a host is that of the others: Python, torch, torchvision, our own
code."""

from __future__ import annotations

from remote.doctor.host_facts import FAILED, WARNING, CheckedHost, HostFinding
from remote.transport.bootstrap.archive import build_archive
from training.wire.events import Hello


def check_python(checked: CheckedHost) -> HostFinding | str:
    """Compare the version of Python, of which the first two numbers count."""
    hello = checked.hello
    usual = checked.usual(_minor_version)
    if _minor_version(hello) == usual:
        return hello.python
    names = checked.names(lambda other: _minor_version(other) == usual)
    python = f"/usr/bin/python{usual}"
    return HostFinding(
        WARNING,
        f"{hello.python}, but {usual} on {names}",
        f"set python in {checked.plan.hosts_file} to a Python {usual} there, as python = "
        f'"{python}"',
    )


def _minor_version(hello: Hello) -> str:
    return ".".join(hello.python.split(".")[:2])


def check_torch(checked: CheckedHost) -> HostFinding | str:
    """Compare the version of torch and what it was built for. A script may do without, if all hosts
    do."""
    hello = checked.hello
    usual = checked.usual(_torch_version)
    if not hello.torch and (checked.plan.job or usual):
        problem = f"{hello.executable} (Python {hello.python}) has no torch"
        return HostFinding(FAILED, problem, _advise_on_torch(checked, "torch torchvision"))
    if _torch_version(hello) != usual:
        names = checked.names(lambda other: _torch_version(other) == usual)
        problem = f"torch {hello.torch or 'none'}, but {usual or 'none'} on {names}"
        advice = _advise_on_torch(checked, f"torch=={usual}", f" --torch {usual}")
        return HostFinding(FAILED, problem, advice)
    return _compare_backends(checked)


def _install(checked: CheckedHost, packages: str, options: str = "") -> str:
    """Say how to install packages on a host. `rankboard setup` comes first: the Python of a system
    such as Debian refuses what pip would put beside its own packages."""
    by_hand = f"{checked.hello.executable} -m pip install {packages}"
    if checked.plan.is_local:
        return f"install it with {by_hand}"
    setup = f"rankboard setup{checked.plan.hosts_option}{options}"
    return (
        f"{setup} installs it on all hosts; by hand, in an environment of your own there: {by_hand}"
    )


def _advise_on_torch(checked: CheckedHost, packages: str, options: str = "") -> str:
    install = _install(checked, packages, options)
    return f"{install}; or set python in {checked.plan.hosts_file} to one that has it"


def _torch_version(hello: Hello) -> str:
    """Return the version without what it was built for, as in 2.14.1+cpu."""
    return hello.torch.partition("+")[0]


def _compare_backends(checked: CheckedHost) -> HostFinding | str:
    """Compare what torch was built for. Builds for different GPUs cannot talk to each other on
    them; if no host has one, all do on CPUs."""
    hello = checked.hello
    usual = checked.usual(lambda other: other.backends)
    has_gpus = any(other.hello.gpus for other in checked.reached)
    if hello.backends == usual or not has_gpus:
        return hello.torch or "none"
    ours = ", ".join(hello.backends) or "CPUs only"
    theirs = ", ".join(usual) or "CPUs only"
    names = checked.names(lambda other: other.backends == usual)
    problem = f"torch {hello.torch} is built for {ours}, but for {theirs} on {names}"
    advice = "install the same build of torch everywhere"
    if hello.backends and usual:
        return HostFinding(FAILED, problem, advice)
    return HostFinding(WARNING, problem, f"{advice}; as it is, all ranks train on CPUs")


def check_torchvision(checked: CheckedHost) -> HostFinding | str:
    """Check for torchvision, which provides the model of the job."""
    if checked.hello.torchvision:
        return checked.hello.torchvision
    install = _install(checked, "torchvision")
    return HostFinding(FAILED, "no torchvision, which provides the model", install)


def check_code(checked: CheckedHost) -> HostFinding | str:
    """Check that the files of rankboard there are this machine's. A host that has said Hello has
    compared them with their digest at this start, in a folder that no other user may write: see
    `remote.transport.bootstrap`."""
    files = f"{build_archive().count} files"
    if not checked.hello.code_changed:
        return files
    problem = f"{files}, sent again: those in its workdir had been changed"
    return HostFinding(WARNING, problem, "see who or what changes files there")
