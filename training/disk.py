"""Why a file could not be written."""

from __future__ import annotations


def reason(error: OSError | RuntimeError) -> str:
    """The reason in short: torch.save hides the error of the disk behind a RuntimeError."""
    cause = error if isinstance(error, OSError) else error.__context__
    return (isinstance(cause, OSError) and cause.strerror) or str(error)
