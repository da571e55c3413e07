"""The variables that a plan sets in the environment of the ranks, as settings that people read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from remote.format import UNKNOWN

VARIABLE = "$"
"""What the name of a setting begins with that is such a variable: `$NCCL_DEBUG`."""
HIDDEN = "(hidden)"
"""The value of a variable whose name says that it is a secret."""
EMPTY = '""'
"""How a value without characters is shown."""
_SECRET_NAME = re.compile(
    r"(?:.*_)?(?:(?:API)?KEY|TOKEN|SECRET|PASS(?:WORD|WD)?|CREDENTIALS?)(?:_.*)?", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Return True if the name of a variable says that its value is a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


def describe_variables(variables_of_hosts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables as settings by name, each with its different values in the order of the
    hosts. A name that no hosts file can give is left out."""
    settings = {}
    for name in dict.fromkeys(name for variables in variables_of_hosts for name in variables):
        if not name.isidentifier():
            continue
        values = (variables.get(name, UNKNOWN) or EMPTY for variables in variables_of_hosts)
        value_text = ", ".join(dict.fromkeys(values))
        settings[VARIABLE + name] = HIDDEN if is_secret(name) else value_text
    return settings
