"""A plan as JSON text, for the run directory and for the hosts, and back."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, replace
from typing import Any

from remote.cluster.hosts import HOSTS_FILE, Host
from remote.plan.plan import Plan, PlanError, Policy, Script, Upload, is_label
from remote.sanitise import unseen_character
from training.job import Job
from training.wire.codec import decoder_of
from training.wire.format import FORMAT, format_of


class OtherFormat(PlanError):
    """A run that another version of rankboard recorded, in a format that this one does not read."""

    def __init__(self, run: str, number: int) -> None:
        """`run`: its name, or several. `number`: the format, 0 where the run names none."""
        when = f"in format {number}" if number else "before formats had numbers"
        super().__init__(
            f"{run}: recorded {when}, but this version of rankboard reads format {FORMAT}; use the "
            "version that recorded it"
        )
        self.number = number


def dump(plan: Plan) -> str:
    """Return the plan as text, with the versions that launched it."""
    from importlib import metadata  # takes a while to load

    kind = "script" if isinstance(plan.work, Script) else "job"
    launcher = {
        "rankboard": metadata.version("rankboard"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
    }
    data = {"format": FORMAT, **asdict(plan), "launcher": launcher}
    data["work"] = {kind: data["work"]}
    for host in data["hosts"]:
        del host["hosts_file"]
    del data["rules_left_out"]
    if not plan.label:
        del data["label"]
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def parse(text: str | bytes) -> Plan:
    """Read the plan of a text; what this version does not know is left out. The names in it are
    those of folders and lead nowhere else, and its numbers are within bounds. Raises: OtherFormat;
    ValueError."""
    try:
        data = json.loads(text)
        if "run" in data and (number := format_of(data)) != FORMAT:
            name = str(data.get("run"))
            raise OtherFormat(name if is_plain(name) else "the run", number)
        kind, work = next(iter(data["work"].items()))
        label = data.get("label")
        plan = Plan(
            str(data["run"]),
            # Whoever wrote the plan must not choose the file that we tell the user to change.
            tuple(replace(host, hosts_file=HOSTS_FILE) for host in _read_hosts(data["hosts"])),
            script_of(work) if kind == "script" else _read_job(work),
            _read_policy(data.get("policy", {})),
            _read_uploads(data.get("uploads", [])),
            str(data.get("project", "")),
            # Of a name that nobody could have given, nothing is shown.
            label=label if isinstance(label, str) and is_label(label) else "",
        )
    except (LookupError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ValueError(str(error)) from error
    _check_names(plan)
    return plan


_words = decoder_of(tuple[str, ...])
_read_script = decoder_of(Script)
_read_hosts = decoder_of(tuple[Host, ...])
_read_uploads = decoder_of(tuple[Upload, ...])
_read_policy = decoder_of(Policy)
_read_job = decoder_of(Job)


def script_of(data: Any) -> Script:
    """Read a script; an older plan has its words alone. Raises: ValueError, TypeError, LookupError,
    AttributeError."""
    script = Script(_words(data)) if isinstance(data, list) else _read_script(data)
    if not script.words:
        raise ValueError("its program has no words")
    return script


def _check_names(plan: Plan) -> None:
    """Check that there are hosts, that their names are unique, and that no name of a folder leads
    out of where it belongs. Raises: ValueError."""
    if not plan.hosts:
        raise ValueError("it has no hosts")
    if len({host.name for host in plan.hosts}) < len(plan.hosts):
        raise ValueError("it has a host twice")
    for what, name in (("run", plan.run), ("project", plan.project or "none")):
        if not is_plain(name):
            character = unseen_character(name)
            why = f": it has {character}, which cannot be seen" if character else ""
            raise ValueError(f"its {what} {name!r} is not a plain name{why}")
    for target in (upload.target for upload in plan.uploads if upload.target):
        if any(part in ("", ".", "..") for part in target.split("/")) or "\0" in target:
            raise ValueError(f"its upload to {target!r} leads elsewhere")


def is_plain(name: str) -> bool:
    """Return True if a name is that of one entry of a folder, and neither hidden nor unfit to be
    shown."""
    return name[:1] not in ("", ".", "-") and "/" not in name and not unseen_character(name)
