"""What a disk says of a file that could not be written."""

from __future__ import annotations


def reason(error: OSError | RuntimeError) -> str:
    """Why, in short: torch.save hides what the disk said behind a RuntimeError of its own."""
    cause = error if isinstance(error, OSError) else error.__context__
    return (isinstance(cause, OSError) and cause.strerror) or str(error)
