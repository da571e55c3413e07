"""`rankboard formats`: the log formats that are known."""

from __future__ import annotations

# `json` is a flag of the command.
import json as encoding
from typing import Annotated

from cyclopts import Parameter

from remote.formats.candidates import looks_unread
from remote.formats.catalog import LogFormat, known_formats
from remote.sanitise import shown
from training.registry import did_you_mean
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo
from tui.kit.text_table import print_table
from tui.parse.readings import describe_reading, reading_json


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

    rankboard detects the format of a script's output automatically: see rankboard parse.

    Examples:
      rankboard formats
      rankboard formats Megatron-LM
    """
    with refusing():
        chosen_formats = [_find_format(name)] if name else list(known_formats())
    if json:
        for log_format in chosen_formats:
            echo(encoding.dumps(_format_json(log_format)))
    elif name:
        _show_format(chosen_formats[0])
    else:
        chosen_formats.sort(key=lambda log_format: log_format.name.lower())
        table_rows = [(log_format.name, _example(log_format)) for log_format in chosen_formats]
        print_table(("format", "a line of it"), table_rows)


def _find_format(name: str) -> LogFormat:
    """Return the format of a name, or of one that begins so. Raises: UsageError."""
    formats_by_name = {log_format.name.lower(): log_format for log_format in known_formats()}
    if name.lower() in formats_by_name:
        return formats_by_name[name.lower()]
    for known_name, log_format in formats_by_name.items():
        if known_name.startswith(name.lower()):
            return log_format
    format_names = [log_format.name for log_format in known_formats()]
    hint = did_you_mean(name, format_names) or "; rankboard formats lists them"
    raise UsageError(f"no format is called {name!r}{hint}")


def _sample_lines(text: str) -> list[str]:
    """Return the lines of a sample, as a terminal shows them."""
    # A progress bar goes back to the beginning of its line, and writes over it.
    return [line for line in shown(text.replace("\r", "\n")) if line.strip()]


def _example(log_format: LogFormat) -> str:
    """Return a line of the format, with a value if it has such."""
    sample_lines = _sample_lines(log_format.samples[0].text)
    # The first line of a sample may be a header.
    lines_with_values = [line for line in sample_lines if looks_unread(line)]
    return (lines_with_values or sample_lines)[0].strip()


def _show_format(log_format: LogFormat) -> None:
    echo(log_format.name)
    for sample in log_format.samples:
        echo()
        for line in _sample_lines(sample.text):
            echo(f"  {line.rstrip()}")
        readings = sample.expected()
        for reading in readings:
            echo(f"    -> {describe_reading(reading)}")
        if not readings:
            echo("    -> nothing: the line has no value of the training")


def _format_json(log_format: LogFormat) -> dict[str, object]:
    samples = []
    for sample in log_format.samples:
        readings = [reading_json(reading) for reading in sample.expected()]
        samples.append({"text": sample.text, "readings": readings})
    return {"name": log_format.name, "samples": samples}
