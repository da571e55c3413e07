"""`rankboard formats`: the log formats that are known."""

from __future__ import annotations

import json as encoding
from typing import Annotated

from cyclopts import Parameter

from remote.formats.format import Format
from remote.formats.known import ALL
from remote.formats.unread import bears_number
from remote.sanitise import shown
from training.registry import did_you_mean
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo
from tui.kit.text_table import print_table
from tui.parse.readings import as_json, told


def formats(
    name: Annotated[
        str,
        Parameter(name="[NAME]", help="show the lines of this format, and their values"),
    ] = "",
    /,
    *,
    json: Annotated[bool, Parameter(help="print one JSON object per format")] = False,
) -> None:
    """List the log formats that rankboard reads, each with an example; or show one with all its
    samples.

    rankboard detects the format of a program's output automatically: see rankboard parse.

    Examples:
      rankboard formats
      rankboard formats Megatron-LM
    """
    with refusing():
        found = [_named(name)] if name else list(ALL)
    if json:
        for one in found:
            echo(encoding.dumps(_data(one)))
    elif name:
        _show(found[0])
    else:
        rows = [(one.name, _line(one)) for one in sorted(found, key=_key)]
        print_table(("format", "a line of it"), rows)


def _key(one: Format) -> str:
    return one.name.lower()


def _named(name: str) -> Format:
    names = {one.name.lower(): one for one in ALL}
    found = names.get(name.lower()) or next(
        (one for known, one in names.items() if known.startswith(name.lower())), None
    )
    if found is None:
        hint = did_you_mean(name, [one.name for one in ALL]) or "; rankboard formats lists them"
        raise UsageError(f"no format is called {name!r}{hint}")
    return found


def _lines(text: str) -> list[str]:
    """The lines of a sample, as a terminal shows them."""
    return [line for line in shown(text.replace("\r", "\n")) if line.strip()]


def _line(one: Format) -> str:
    """A line of the format, with a value if it has such."""
    lines = _lines(one.samples[0].text)
    return next(filter(bears_number, lines), lines[0]).strip()


def _show(one: Format) -> None:
    echo(one.name)
    for sample in one.samples:
        echo()
        for line in _lines(sample.text):
            echo(f"  {line.rstrip()}")
        for reading in sample.readings:
            echo(f"    -> {told(reading)}")
        if not sample.readings:
            echo("    -> nothing: the line has no value of the training")


def _data(one: Format) -> dict[str, object]:
    return {
        "name": one.name,
        "samples": [
            {"text": sample.text, "readings": [as_json(reading) for reading in sample.readings]}
            for sample in one.samples
        ],
    }
