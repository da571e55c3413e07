"""Checks whether the software of a host is that of the others: Python, torch, torchvision, our own
code."""

from __future__ import annotations

import sys

from remote.doctor.host_facts import FAILED, WARNING, CheckedHost, HostFinding
from remote.own_python import install_command
from remote.transport.bootstrap.archive import build_archive
from training.wire.host_events import Hello


def check_python(checked: CheckedHost) -> HostFinding | str:
    """Compare the version of Python, of which the first two numbers count."""
    hello = checked.hello
    usual_version = checked.usual(_minor_version)
    if _minor_version(hello) == usual_version:
        return hello.python
    host_names = checked.names(lambda other_hello: _minor_version(other_hello) == usual_version)
    usual_python = f"/usr/bin/python{usual_version}"
    return HostFinding(
        WARNING,
        f"{hello.python}, but {usual_version} on {host_names}",
        f"set python in {checked.plan.hosts_file} to a Python {usual_version} there, as python = "
        f'"{usual_python}"',
        value=hello.python,
    )


def _minor_version(hello: Hello) -> str:
    # Patch releases change neither the language nor what pickle writes.
    return ".".join(hello.python.split(".")[:2])


def check_torch(checked: CheckedHost) -> HostFinding | str:
    """Compare the version of torch and what it was built for. A script may do without, if all hosts
    do; one that imports it may bring its own."""
    hello = checked.hello
    usual_version = checked.usual(_torch_version)
    is_needed = bool(checked.plan.job or usual_version)
    if not hello.torch and (is_needed or checked.plan.imports_torch):
        problem_text = f"{hello.executable} (Python {hello.python}) has no torch"
        advice = _advise_on_torch(checked, "torch torchvision")
        if is_needed:
            return HostFinding(FAILED, problem_text, advice)
        problem_text += ", which the script imports"
        return HostFinding(WARNING, problem_text, advice, value="none")
    if _torch_version(hello) != usual_version:
        host_names = checked.names(lambda other_hello: _torch_version(other_hello) == usual_version)
        problem_text = (
            f"torch {hello.torch or 'none'}, but {usual_version or 'none'} on {host_names}"
        )
        advice = _advise_on_torch(checked, f"torch=={usual_version}", f" --torch {usual_version}")
        return HostFinding(FAILED, problem_text, advice, value=hello.torch)
    return _compare_backends(checked)


def _install(checked: CheckedHost, packages: str, options: str = "") -> str:
    """Say how to install packages on a host. `rankboard setup` comes first: the Python of a system
    such as Debian refuses what pip would put beside its own packages."""
    python = checked.hello.executable
    if checked.plan.is_local:
        # Another Python of this machine may have no rankboard.
        if python == sys.executable:
            packages = "'rankboard[local]'"
        return f"install it with {install_command(packages, python)}"
    setup_command = f"rankboard setup{checked.plan.hosts_option}{options}"
    return (
        f"{setup_command} installs it on all hosts; by hand there: "
        f"{python} -m venv ~/torch && ~/torch/bin/pip install {packages}, and set python to "
        "~/torch/bin/python"
    )


def _advise_on_torch(checked: CheckedHost, packages: str, options: str = "") -> str:
    install_advice = _install(checked, packages, options)
    return f"{install_advice}; or set python in {checked.plan.hosts_file} to one that has torch"


def _torch_version(hello: Hello) -> str:
    """Return the version without what it was built for, as in 2.14.1+cpu."""
    # The part behind the plus names the build, at which `_compare_backends` looks.
    return hello.torch.partition("+")[0]


def _compare_backends(checked: CheckedHost) -> HostFinding | str:
    """Compare what torch was built for. Builds for different GPUs cannot talk to each other on
    them; if no host has one, all do on CPUs."""
    hello = checked.hello
    usual_backends = checked.usual(lambda other: other.backends)
    has_gpus = any(other.hello.gpus for other in checked.reached)
    if hello.backends == usual_backends or not has_gpus:
        return hello.torch or "none"
    own_text = ", ".join(hello.backends) or "CPUs only"
    usual_text = ", ".join(usual_backends) or "CPUs only"
    host_names = checked.names(lambda other: other.backends == usual_backends)
    problem_text = (
        f"torch {hello.torch} is built for {own_text}, but for {usual_text} on {host_names}"
    )
    advice = "install the same build of torch everywhere"
    if hello.backends and usual_backends:
        return HostFinding(FAILED, problem_text, advice)
    return HostFinding(WARNING, problem_text, f"{advice}; as it is, all ranks train on CPUs")


def check_torchvision(checked: CheckedHost) -> HostFinding | str:
    """Check for torchvision, which provides the model of the job."""
    if checked.hello.torchvision:
        return checked.hello.torchvision
    install_advice = _install(checked, "torchvision")
    return HostFinding(FAILED, "no torchvision, which provides the model", install_advice)


def check_code(checked: CheckedHost) -> HostFinding | str:
    """Check that the files of rankboard there are this machine's. A host that has said Hello has
    compared them with their digest at this start, in a folder that no other user may write: see
    `remote.transport.bootstrap`."""
    if not checked.hello.code_changed:
        return "as here"
    num_files = build_archive().count
    problem_text = f"{num_files} files, sent again: those in its workdir had been changed"
    return HostFinding(WARNING, problem_text, "see who or what changes files there")
