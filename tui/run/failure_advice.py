"""What a user can do about a failure of which the fields of its cause tell, with what is known only
here: the environment of whoever looks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from remote.cluster.hosts import Host
from remote.own_python import install_command
from remote.plan.main_program import NO_PYTHON
from remote.plan.pasted.arguments import Places
from remote.plan.pasted.meanings import find_required_meaning
from remote.plan.pasted.script_facts import ScriptFacts
from remote.plan.placeholders import find_shell_text
from remote.plan.plan import Plan, Script
from remote.plan.python_line import python_line
from remote.run.state.types import (
    Cause,
    MissingGpu,
    MissingOptions,
    MissingTorch,
    MissingVariable,
)
from remote.transport.registry import load_transport


def failure_advice(cause: Cause, plan: Plan, environment: Mapping[str, str] = os.environ) -> str:
    """Say what to do about a failure, in one line; "" where that is not known.

    `environment` is that of the shell of whoever looks. No value of it is told.
    """
    if cause.advice or not plan.script:
        return cause.advice
    if isinstance(cause.lack, MissingVariable):
        cause_hosts = [host for host in plan.hosts if host.name == cause.host]
        is_withheld = any(_withholds(host, cause.lack.name) for host in cause_hosts)
        # A variable that the user's shell lacks, too, is a mistake of another kind.
        if is_withheld and cause.lack.name in environment:
            return _pass_variable(cause.lack.name, plan.hosts_file)
    if isinstance(cause.lack, MissingOptions):
        return _give_place(cause.lack, plan.script)
    if isinstance(cause.lack, MissingGpu):
        return _avoid_backend(cause.lack, plan.script, plan.world_size)
    if isinstance(cause.lack, MissingTorch):
        return _install_torch(cause.lack.package, plan)
    return ""


def _withholds(host: Host, name: str) -> bool:
    """Return True if ranks of the host lack a variable that the user's shell may have."""
    is_passed = name in dict(host.env) or name in host.env_from
    return not is_passed and not load_transport(host.transport).shares_environment


def _pass_variable(name: str, hosts_file: str) -> str:
    return (
        f"{name} is set in your shell, but ranks do not get its variables: write "
        f'env_from = ["{name}"] in [defaults] of {hosts_file}, or put {name}=… after --, '
        "before the program"
    )


def _give_place(lack: MissingOptions, script: Script) -> str:
    """Say how to give each rank its options, if they are those of its place among the ranks."""
    meanings = {names: find_required_meaning(names) for names in lack.options}
    places = Places.find(set(filter(None, meanings.values())), ScriptFacts())
    option_words: list[str] = []
    for names, meaning in meanings.items():
        if meaning:
            # The last of its names is mostly the long one, which says more.
            option_words += names[-1], places.usual_value(meaning)
    if not option_words:
        return ""
    command_line = shlex.join(_add_words(script.words, option_words))
    return f"each rank gets its own place by placeholders; write -- {command_line}"


def _install_torch(package: str, plan: Plan) -> str:
    """Say how the ranks of a script get torch or torchvision."""
    if plan.is_local:
        command = install_command("'rankboard[local]'")
        return f"install it with {command}; or put the Python that has it before the script"
    return (
        f"rankboard setup{plan.hosts_option} installs {package} on all hosts; or set python in "
        f"{plan.hosts_file} to one that has it"
    )


def _avoid_backend(lack: MissingGpu, script: Script, world_size: int) -> str:
    """Say how a script trains without a backend that needs a GPU on each host."""
    advice = (
        f"{lack.backend} needs GPUs: if the script has an option for its backend, write gloo there"
    )
    if world_size > 1:
        return advice
    command_line = shlex.join(["env", "-u", "RANK", *_name_python(script.words)])
    return f"{advice}; if it joins a group only where RANK is set, write -- {command_line}"


def _name_python(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a script as another program can start them."""
    if words[0] == NO_PYTHON:
        return words[1:]
    python_words = python_line(words)
    is_started_by_us = python_words is not None and not python_words.interpreter
    return ["python", *words] if is_started_by_us else words


def _add_words(words: Sequence[str], added_words: Sequence[str]) -> list[str]:
    """Return the words of a script with more arguments, which may be those of a shell's text."""
    shell_index = find_shell_text(words)
    if shell_index < 0:
        return [*words, *added_words]
    shell_text = f"{words[shell_index]} {' '.join(added_words)}"
    return [*words[:shell_index], shell_text, *words[shell_index + 1 :]]
