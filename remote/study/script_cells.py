"""The cells of a study of a user's own program: its axes are the arguments of the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from remote.plan.plan import Script
from remote.study.reader import Reader, label_of, of_top, written
from remote.study.study import REPETITION
from training.registry import did_you_mean

SCRIPT = "script"
"""The key of [base] that has the program."""
PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")
WRITE = 'script = "train.py --lr {lr}"'


def words(reader: Reader, base: Mapping[str, Any]) -> tuple[str, ...]:
    """The program and its arguments, with placeholders; () with a mistake."""
    text = base.get(SCRIPT)
    if not isinstance(text, str) or not text.strip():
        said = f"script = {written(text)}" if SCRIPT in base else "[base] has no script"
        reader.say(SCRIPT if SCRIPT in base else "base", f"{said}: write {WRITE}", "base")
        return ()
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        reader.say(SCRIPT, f"script: {str(error).lower()}: write {WRITE}", "base")
        return ()


def filled(reader: Reader, script: tuple[str, ...], values: Mapping[str, Any]) -> Script:
    """The program with these values in place of its placeholders. Each placeholder needs a value
    and each value a placeholder; a seed may be that of the repetition."""
    names = [name for word in script for name in PLACEHOLDER.findall(word)]
    for key in values:
        if key not in names and script:
            write = f"write --{key} {{{key}}} into it"
            near = did_you_mean(key, names) or f": {write}"
            top = of_top(key)
            reader.say(
                key,
                f"{top}; if it is an argument of the script, {write}"
                if top
                else f"{key} is not in the script{near}",
            )
    known = {REPETITION.strip("{}"): REPETITION} | {
        key: label_of(value) for key, value in values.items()
    }
    for name in dict.fromkeys(names):
        if name not in known:
            reader.say(
                SCRIPT,
                f"{{{name}}} has no values: write {name} = [1, 2] below [axes], or {name} = 1 "
                "below [base]",
                "base",
            )
    for key, value in values.items():
        if not isinstance(value, str | int | float):
            reader.say(key, f"{key} = {written(value)}: write a text in quotes, or a number")
    return Script(
        tuple(PLACEHOLDER.sub(lambda one: known.get(one[1], one[0]), word) for word in script)
    )
