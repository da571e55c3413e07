"""Checks of a model that need neither torch nor torchvision: does it exist, and which images does
it take.

Standard library only.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from training import registry

LARGEST_SIDE = 4096
"""The largest side in pixels of an image."""
_REGISTERED = re.compile(
    r"^@register_model\((?:name=)?(?:\"(\w+)\")?\)\n(?:.*\n)*?def (\w+)", re.MULTILINE
)


def accepted_sides(model: str) -> tuple[int, int]:
    """Return the smallest and the largest side of the images that a model takes. Raises:
    UnknownName."""
    sides = registry.read_constant("models", model, "IMAGE_SIZES", (0, 0))
    if isinstance(sides, dict):
        name = registry.split_name("models", model)[1][0]
        matching_sides = (sides[beginning] for beginning in sides if name.startswith(beginning))
        # The first beginning that fits counts.
        sides = next(matching_sides, (0, 0))
    smallest, largest = sides
    return smallest, largest or LARGEST_SIDE


def choose_side(model: str, dataset: str, requested: int) -> int:
    """Return the side of the images that the model sees if the user asks for `requested` pixels (0:
    for none). Return 0 if it is not known. Raises: UnknownName."""
    side = requested or int(registry.read_constant("datasets", dataset, "IMAGE_SIZE", 0))
    if side:
        return side
    default_side = int(registry.read_constant("datasets", dataset, "DEFAULT_SIZE", 0))
    smallest, largest = accepted_sides(model)
    return default_side if smallest <= default_side <= largest else smallest


def explain_wrong_side(model: str, side: int) -> str:
    """Say why a model cannot take images of a side. Return "" if it can, or the side is not known.
    Raises: UnknownName."""
    smallest, largest = accepted_sides(model)
    if not side or smallest <= side <= largest:
        return ""
    accepted_text = f"{smallest}x{smallest}"
    if largest == LARGEST_SIDE:
        accepted_text += " and larger"
    elif largest > smallest:
        accepted_text += f" to {largest}x{largest}"
    return (
        f"--model {model} cannot take images of {side}x{side}: it takes {accepted_text}; give "
        f"--image-size {smallest}"
    )


@cache
def torchvision_models() -> tuple[str, ...]:
    """Return the names of the classification models of the installed torchvision; none if it is not
    installed. They are read from its source, as the import takes seconds."""
    package_spec = find_spec("torchvision")
    if package_spec is None:
        return ()
    model_names = []
    for folder in package_spec.submodule_search_locations or ():
        for path in Path(folder).glob("models/*.py"):
            for given_name, function_name in _REGISTERED.findall(path.read_text()):
                model_names.append(given_name or function_name)
    return tuple(sorted(model_names))


def explain_unknown_torchvision_model(name: str) -> str:
    """Say that there is no model of this name, with similar names. Return "" if there is one, or
    torchvision is not installed."""
    known_models = torchvision_models()
    if name in known_models or not known_models:
        return ""
    similar_names = difflib.get_close_matches(name, known_models, 5, 0.5)
    names_to_try = (
        f"similar: {', '.join(similar_names)}"
        if similar_names
        else f"known: {', '.join(known_models)}"
    )
    return (
        f"--model torchvision/{name}: torchvision has no classification model of this name "
        f"({names_to_try})"
    )
