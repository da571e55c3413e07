"""`rankboard config …`: which settings apply and where each comes from, what is wrong in their
files, and schemas of the files for editors."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from remote.cluster.hosts import HOSTS_FILE, Cluster, HostsError
from remote.cluster.load import has_usual, load, load_usual
from remote.cluster.rules import RULES_FILE, folder_rules
from remote.format import count
from tui.flags.command_help import make_app
from tui.flags.common import HostsFile
from tui.kit.exit import USAGE, UsageError, refusing
from tui.kit.narrate import echo, narrate
from tui.kit.text_table import print_table

if TYPE_CHECKING:
    from remote.cluster.origins import Origin, Setting

HELP = f"""\
Show and check the settings in {HOSTS_FILE} and {RULES_FILE}.

Examples:
  rankboard config show
  rankboard config validate
  rankboard config schema > hosts.schema.json
"""


def show(
    *,
    all_keys: Annotated[
        bool, Parameter(name="--all", help="show also what nobody has set: the defaults")
    ] = False,
    json: Annotated[bool, Parameter(help="print one JSON object per setting")] = False,
    hosts: HostsFile = None,
) -> None:
    """Show which settings apply, and the file, line and key that each comes from.

    What a host lacks comes from the table of defaults, then from ~/.ssh/config. Values of
    variables that env_from names are never shown. Flags of a run count more than all of these.

    Examples:
      rankboard config show
      rankboard config show --all --hosts lab.toml
    """
    from remote.cluster.origins import DEFAULT, find_rule_settings, find_settings

    with refusing(OSError):
        settings = list(find_settings(_load_hosts(hosts))) if hosts or has_usual() else []
        if folder_rules(Path()):
            settings += find_rule_settings(Path(RULES_FILE))
        if not settings:
            raise UsageError(f"there is no {HOSTS_FILE} and no {RULES_FILE} here")
    if not all_keys:
        settings = [setting for setting in settings if setting.origin != DEFAULT]
    if json:
        for setting in settings:
            echo(json_module.dumps(_to_object(setting)))
        return
    print_table(
        ("of", "key", "value", "from"),
        [
            (setting.owner, setting.key, _format_value(setting.value), _describe(setting.origin))
            for setting in settings
        ],
    )


def _load_hosts(hosts: Path | None) -> Cluster:
    """Raises: HostsError."""
    cluster = load(hosts) if hosts else load_usual()
    narrate(*cluster.remarks)
    return cluster


def _to_object(setting: Setting) -> dict[str, Any]:
    """Return a setting as --json prints it."""
    return {
        "of": setting.owner,
        "key": setting.key,
        "value": setting.value,
        "file": setting.origin.file or None,
        "line": setting.origin.line or None,
        "from": setting.origin.key or "default",
    }


def _format_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(value) or "-"
    return str(value) if value != "" else "-"


def _describe(origin: Origin) -> str:
    """Say where a value comes from: "hosts.toml, line 9, [defaults] user"."""
    line_text = f"line {origin.line}" if origin.line else ""
    return ", ".join(filter(None, (origin.file, line_text, origin.key))) or "default"


def validate(
    *files: Annotated[
        Path,
        Parameter(
            name="FILE",
            help=f"the files to check (default: {HOSTS_FILE} and {RULES_FILE} of this folder)",
        ),
    ],
    hosts: HostsFile = None,
) -> None:
    """Check hosts files and files of rules: print all that is wrong in them, with file and line.

    No host is reached; rankboard doctor does that. A file called rankboard.toml has rules, any
    other one has hosts.

    Examples:
      rankboard config validate
      rankboard config validate lab.toml

    Exit codes:
      0  nothing is wrong
      2  something is wrong, or a file is missing
    """
    usual_files = [path for path in (Path(HOSTS_FILE), Path(RULES_FILE)) if path.exists()]
    named_files = [*files, hosts] if hosts else [*files]
    checked_files = named_files or usual_files
    with refusing():
        if not checked_files:
            raise UsageError(f"there is no {HOSTS_FILE} and no {RULES_FILE} here: name a file")
    mistakes = [mistake for path in checked_files for mistake in _find_mistakes(path)]
    for mistake in mistakes:
        echo(mistake)
    if mistakes:
        raise SystemExit(USAGE)


def _find_mistakes(path: Path) -> Iterator[str]:
    """Yield the mistakes in a file, a line each; say of a right one what it has."""
    from remote.cluster.file import read_rules

    try:
        if path.name == RULES_FILE:
            narrate(f"{path} is right: {count(len(read_rules(path)), 'rule')}")
            return
        cluster = load(path)
    except HostsError as error:
        for mistake in error.mistakes:
            yield str(mistake)
        return
    narrate(f"{path} is right: {count(len(cluster.hosts), 'host')}", *cluster.remarks)


def schema(
    file: Annotated[
        str,
        Parameter(name="[FILE]", help=f"{HOSTS_FILE} or {RULES_FILE} (default: {HOSTS_FILE})"),
    ] = HOSTS_FILE,
    /,
) -> None:
    """Print the JSON Schema of a file, with which an editor completes and checks its keys.

    Editors that know Taplo take it from a first line in the file: #:schema ./hosts.schema.json

    Examples:
      rankboard config schema > hosts.schema.json
      rankboard config schema rankboard.toml > rankboard.schema.json
    """
    from remote.cluster.file_schema import FILES, make_file_schema

    with refusing():
        if file not in FILES:
            raise UsageError(f"{file} has no schema: write {' or '.join(FILES)}")
    echo(json_module.dumps(make_file_schema(file), indent=2))


app = make_app("rankboard config", None, help=HELP)
COMMANDS: dict[str, Callable[..., None]] = {"show": show, "validate": validate, "schema": schema}
for place, (name, function) in enumerate(COMMANDS.items()):
    command = make_app(f"rankboard config {name}", function)
    # cyclopts would sort them by name.
    command.sort_key = place
    app.command(command)
