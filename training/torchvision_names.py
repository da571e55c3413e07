"""The names of torchvision's classification models, read from its source: the import takes seconds.

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
    """The names that the installed torchvision knows; none where it is not installed."""
    spec = find_spec("torchvision")
    folders = (spec.submodule_search_locations if spec else None) or ()
    sources = (path.read_text() for folder in folders for path in Path(folder).glob("models/*.py"))
    return tuple(
        sorted(
            named or function for text in sources for named, function in _REGISTERED.findall(text)
        )
    )


def problem(name: str) -> str:
    """Why there is no model of this name, with similar names; "" where there is one, or torchvision
    is not installed."""
    known = names()
    if name in known or not known:
        return ""
    near = difflib.get_close_matches(name, known, 5, 0.5)
    names_to_try = f"similar: {', '.join(near)}" if near else f"known: {', '.join(known)}"
    return (
        f"--model torchvision/{name}: torchvision has no classification model of this name "
        f"({names_to_try})"
    )
