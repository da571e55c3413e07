"""The side of the images that a model takes and a data set gives, in pixels.

Standard library only.
"""

from __future__ import annotations

from training import registry

LARGEST = 4096


def accepted(model: str) -> tuple[int, int]:
    """The smallest and the largest side of the images that a model takes. Raises: UnknownName."""
    sizes = registry.declared("models", model, "IMAGE_SIZES", (0, 0))
    if isinstance(sizes, dict):
        name = registry.split("models", model)[1][0]
        sizes = next((sizes[begin] for begin in sizes if name.startswith(begin)), (0, 0))
    low, high = sizes
    return low, high or LARGEST


def side(model: str, dataset: str, given: int) -> int:
    """The side of the images that the model sees, where the user gives `given` (0: none); 0 where
    it is not known. Raises: UnknownName."""
    own = int(registry.declared("datasets", dataset, "IMAGE_SIZE", 0))
    if given or own:
        return given or own
    preferred = int(registry.declared("datasets", dataset, "DEFAULT_SIZE", 0))
    low, high = accepted(model)
    return preferred if low <= preferred <= high else low


def problem(model: str, side: int) -> str:
    """Why a model cannot take images of a side; "" where it can, or the side is not known. Raises:
    UnknownName."""
    low, high = accepted(model)
    if not side or low <= side <= high:
        return ""
    takes = f"{low}x{low}"
    if high == LARGEST:
        takes += " and larger"
    elif high > low:
        takes += f" to {high}x{high}"
    return (
        f"--model {model} cannot take images of {side}x{side}: it takes {takes}; give "
        f"--image-size {low}"
    )
