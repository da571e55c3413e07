"""The names of torchvision's classification models, read from its source: to import it takes
seconds.

Standard library only.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_REGISTERED = re.compile(
    r"^@register_model\((?:name=)?(?:\"(\w+)\")?\)\n(?:.*\n)*?def (\w+)", re.MULTILINE
)


@cache
def names() -> tuple[str, ...]:
    """The names that this Python's torchvision knows; none where it has no torchvision."""
    spec = find_spec("torchvision")
    folders = (spec.submodule_search_locations if spec else None) or ()
    sources = (path.read_text() for folder in folders for path in Path(folder).glob("models/*.py"))
    return tuple(
        sorted(
            named or function for text in sources for named, function in _REGISTERED.findall(text)
        )
    )


def problem(name: str) -> str:
    """Why there is no model of this name, with those that are near; "" where there is one, or no
    torchvision to ask."""
    known = names()
    if name in known or not known:
        return ""
    near = difflib.get_close_matches(name, known, 5, 0.5)
    said = f"near are {', '.join(near)}" if near else f"known are {', '.join(known)}"
    return (
        f"--model torchvision/{name}: torchvision has no classification model of this name; {said}"
    )
