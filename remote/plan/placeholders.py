"""Placeholders in the words and variables of a script, such as `{rank}`: each rank gets the values
of its own place. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from remote.plan.python_line import python_line

SHELLS = ("sh", "bash", "zsh", "dash")
_STARTERS = ("env", "--no-python")
"""What may stand before a shell."""
_CODE_OPTION = re.compile(r"-[a-z]*c")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")


class Placeholder(Struct, frozen=True):
    """A name in braces that stands for a value of each rank's place."""

    name: str
    variable: str
    """The variable of torchrun that has the same value; "" if there is none."""
    meaning: str

    def __str__(self) -> str:
        return f"{{{self.name}}}"


Values = Mapping[Placeholder, int | str]
RANK = Placeholder("rank", "RANK", "the number of the rank among all ranks")
LOCAL_RANK = Placeholder("local_rank", "LOCAL_RANK", "the number of the rank on its host")
WORLD_SIZE = Placeholder("world_size", "WORLD_SIZE", "the number of ranks")
LOCAL_WORLD_SIZE = Placeholder(
    "local_world_size", "LOCAL_WORLD_SIZE", "the number of ranks on the host"
)
NODE_RANK = Placeholder("node_rank", "GROUP_RANK", "the number of the host")
NODES = Placeholder("nodes", "GROUP_WORLD_SIZE", "the number of hosts")
MASTER_ADDR = Placeholder("master_addr", "MASTER_ADDR", "the address of the first host")
MASTER_PORT = Placeholder("master_port", "MASTER_PORT", "a free port of the first host")
HOST = Placeholder("host", "", "the name of the host")
PLACEHOLDERS = (
    *(RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, NODE_RANK, NODES),
    *(MASTER_ADDR, MASTER_PORT, HOST),
)
_BY_NAME = {placeholder.name: placeholder for placeholder in PLACEHOLDERS}
_BY_VARIABLE = {
    placeholder.variable: placeholder for placeholder in PLACEHOLDERS if placeholder.variable
}
_CHOICES = r"(?P<choices>(?::[^{}:,\s]+){2,})"
"""Texts of which the number of a place chooses one, as in `{rank:master:slave}`."""
_BRACES = rf"(?P<double>\{{\{{\w+\}}\}})|(?<!\$)\{{(?P<braces>\w+){_CHOICES}?\}}"
"""Two braces are those of a format string, as in `{{rank}}`."""
_IN_CODE = re.compile(_BRACES)
_IN_WORD = re.compile(rf"{_BRACES}|\$\{{(?P<dollar_braces>\w+)\}}|\$(?P<variable>\w+)")


def variables(values: Values) -> dict[str, int | str]:
    """Return the variables of torchrun that have the values of placeholders."""
    return {variable: values[placeholder] for variable, placeholder in _BY_VARIABLE.items()}


def fill(text: str, values: Values, *, is_code: bool = False) -> str:
    """Return the text with the values of its placeholders; one without a value stays as it is.

    `${rank}`, `$RANK` and `${RANK}` are placeholders as well, but not in code, such as a text that
    `bash -c` runs: it has variables of its own. `{rank:master:slave}` is `master` for rank 0, and
    `slave` for all others.
    """

    def find_value(match: re.Match[str]) -> str:
        groups = match.groupdict()
        name = groups["braces"] or groups.get("dollar_braces") or ""
        variable_name = groups.get("variable") or groups.get("dollar_braces") or ""
        placeholder = _BY_VARIABLE.get(variable_name) or _BY_NAME.get(name)
        value = values.get(placeholder) if placeholder else None
        if groups["choices"] and isinstance(value, int):
            choices = groups["choices"].split(":")[1:]
            return choices[min(value, len(choices) - 1)]
        return match[0] if value is None or groups["choices"] else str(value)

    pattern = _IN_CODE if is_code else _IN_WORD
    return pattern.sub(find_value, text)


def fill_words(words: Sequence[str], values: Values) -> tuple[str, ...]:
    """Return the words of a command line with the values of their placeholders."""
    code_index = find_code(words)
    return tuple(
        fill(word, values, is_code=index == code_index) for index, word in enumerate(words)
    )


def has_any(text: str) -> bool:
    """Return True if the text has a placeholder."""
    return fill(text, dict.fromkeys(PLACEHOLDERS, 0)) != text


def is_of_rank(text: str) -> bool:
    """Return True if a placeholder in the text tells apart the ranks of one host."""
    return fill(text, {RANK: 0, LOCAL_RANK: 0}) != text


def find_code(words: Sequence[str]) -> int:
    """Return the index of the text that the program of a command line runs as code, as in `bash -c
    TEXT`; -1 if there is none."""
    shell_index = find_shell_text(words)
    if shell_index >= 0:
        return shell_index
    python_words = python_line(words)
    if python_words and not python_words.name:
        return len(words) - len(python_words.rest) - 1
    return -1


def find_shell_text(words: Sequence[str]) -> int:
    """Return the index of the text that a shell runs, as in `bash -c TEXT`; -1 if there is none."""
    index = 0
    while index < len(words) and (words[index] in _STARTERS or _VARIABLE.match(words[index])):
        index += 1
    if index == len(words) or posixpath.basename(words[index]) not in SHELLS:
        return -1
    index += 1
    while index < len(words) - 1 and words[index].startswith("-"):
        if _CODE_OPTION.fullmatch(words[index]):
            return index + 1
        # An option of the shell follows -o, as in `bash -o pipefail -c TEXT`.
        index += 2 if words[index].endswith("o") else 1
    return -1
