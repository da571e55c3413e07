"""The option --notify, which several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tui.kit.exit import UsageError

if TYPE_CHECKING:
    from remote.session.notify import Notifier

Notify = Annotated[
    str,
    typer.Option(
        metavar="COMMAND|URL",
        help="when the run ends, fails or stalls: run this command, or POST JSON to this URL",
    ),
]


def notifier(target: str) -> Notifier | None:
    """The notifier of this target; None where there is no target. Raises: UsageError."""
    if not target:
        return None
    from remote.session.notify import Notifier, NotifyError  # of which most runs need nothing

    try:
        return Notifier(target)
    except NotifyError as error:
        raise UsageError(str(error)) from None
