"""Finds what a script says that it lacks: a variable of its environment, options that its parser of
arguments requires, a GPU, or torch. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from remote.run.output.last_words import PREFIX
from remote.run.state.types import (
    Lack,
    MissingGpu,
    MissingOptions,
    MissingTorch,
    MissingVariable,
)

_NAME = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_KEY_ERROR = re.compile(rf"^KeyError: '{_NAME}'$")
_VARIABLE = tuple(
    re.compile(pattern)
    for pattern in (
        # bash; sh and zsh
        rf": {_NAME}: (?:unbound variable|parameter (?:null or )?not set)$",
        # decouple
        rf"\b{_NAME} not found\. Declare it as envvar",
        # environs, OmegaConf, and what people write
        rf"(?i:environment variable) ['\"`]?{_NAME}['\"`]? .*(?i:not |missing|required|unset)",
        # django-environ, and what people write
        rf"\b{_NAME} environment variable\b",
        rf"\b{_NAME} (?:is |was )?(?:not set|unset|undefined|missing)\b.*(?i:environment)",
    )
)
_ENVIRONMENT = re.compile(r"\benviron\b|\bgetenv\b")
"""In the traceback of a variable that is missing, and of no other key."""
_ARGPARSE = re.compile(r"\berror: the following arguments are required: (?P<options>.+)$")
_NO_GPU = re.compile(r"\bProcessGroup(?P<backend>NCCL) is only supported with GPUs, no GPUs found")
_NO_TORCH = re.compile(r"^ModuleNotFoundError: No module named '(?P<package>torch|torchvision)'")
_CLICK = re.compile(r"^Error: Missing option (?P<options>.+)$")


def find_missing(words: Sequence[str]) -> Lack | None:
    """Return what a script lacked that ended with these lines, or None if none of them tells."""
    lines = [PREFIX.sub("", line) for line in words]
    is_of_environment = any(map(_ENVIRONMENT.search, lines))
    # The last one first: what came before it was caught, or was only a warning.
    for line in reversed(lines):
        option_names = _find_options(line)
        if option_names:
            return MissingOptions(option_names)
        gpu_match = _NO_GPU.search(line)
        if gpu_match:
            return MissingGpu(gpu_match["backend"])
        torch_match = _NO_TORCH.search(line)
        if torch_match:
            return MissingTorch(torch_match["package"])
        variable_name = _find_variable(line, is_of_environment=is_of_environment)
        if variable_name:
            return MissingVariable(variable_name)
    return None


def _find_variable(line: str, *, is_of_environment: bool) -> str:
    patterns = (_KEY_ERROR, *_VARIABLE) if is_of_environment else _VARIABLE
    for pattern in patterns:
        match = pattern.search(line)
        if match:
            return match["name"]
    return ""


def _find_options(line: str) -> tuple[tuple[str, ...], ...]:
    """Return the options that a parser of arguments asks for, without positional arguments."""
    argparse_match = _ARGPARSE.search(line)
    if argparse_match:
        required_options = [
            tuple(option.strip().split("/")) for option in argparse_match["options"].split(",")
        ]
        return tuple(
            option_names for option_names in required_options if option_names[0].startswith("-")
        )
    click_match = _CLICK.search(line)
    option_names = tuple(re.findall(r"'(-[^']+)'", click_match["options"])) if click_match else ()
    return (option_names,) if option_names else ()
