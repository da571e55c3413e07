"""Options that belong together, for several commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints


def with_group(
    command: Callable[..., None], name: str, group: Callable[..., None]
) -> Callable[..., None]:
    """Replace the parameter `name` of a command by the parameters of `group`.

    The command gets their values as a mapping.
    """
    hints = get_type_hints(command, include_extras=True) | get_type_hints(
        group, include_extras=True
    )
    flags = list(inspect.signature(group).parameters.values())
    parameters: list[inspect.Parameter] = []
    for own in inspect.signature(command).parameters.values():
        parameters += flags if own.name == name else [own]
    named = [one for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD]
    others = [one for one in parameters if one.kind is inspect.Parameter.VAR_KEYWORD]
    keywords = [
        one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for one in named
    ]

    def launch(**values: Any) -> None:
        command(**{name: {flag.name: values.pop(flag.name) for flag in flags}}, **values)

    launch.__doc__ = command.__doc__
    launch.__signature__ = inspect.Signature([*keywords, *others])  # type: ignore[attr-defined]
    launch.__annotations__ = {one: hint for one, hint in hints.items() if one != name}
    return launch
