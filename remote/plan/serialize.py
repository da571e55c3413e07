"""A plan as JSON text, for the run directory and for the hosts, and back."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from remote.cluster.hosts import HOSTS_FILE, Host
from remote.plan.plan import Plan, PlanError, Policy, Script, Upload, is_label
from remote.sanitise import unseen_character
from training.job import Job
from training.wire.codec import decoder_of
from training.wire.format import FORMAT, READABLE, READABLE_TEXT, format_of


class OtherFormat(PlanError):
    """A run that another version of rankboard recorded, in a format that this one does not read."""

    def __init__(self, run_name: str, format_number: int) -> None:
        """`run_name`: its name, or several. `format_number`: 0 where the run names none."""
        format_text = (
            f"in format {format_number}" if format_number else "before formats had numbers"
        )
        super().__init__(
            f"{run_name}: recorded {format_text}, but this version of rankboard reads format "
            f"{READABLE_TEXT}; use the version that recorded it"
        )
        self.number = format_number


@cache
def _describe_launcher() -> dict[str, str]:
    """Return what this process runs."""
    from importlib import metadata  # takes a while to load

    return {
        "rankboard": metadata.version("rankboard"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
    }


def dump(plan: Plan) -> str:
    """Return the plan as text, with the versions that launched it."""
    work_kind = "script" if isinstance(plan.work, Script) else "job"
    plan_data = {"format": FORMAT, **asdict(plan), "launcher": _describe_launcher()}
    plan_data["work"] = {work_kind: plan_data["work"]}
    # It names a file of the machine that launched the run: no reader may take it for its own.
    for host in plan_data["hosts"]:
        del host["hosts_file"]
    # These say how this plan was made or read, not what it is.
    del plan_data["rules_left_out"], plan_data["fixed_place"], plan_data["imports_torch"]
    # Plans without these stay byte for byte what they were before there were any.
    if not plan.label:
        del plan_data["label"]
    if plan.script and not plan.script.variables:
        del plan_data["work"][work_kind]["variables"]
    return json.dumps(plan_data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def parse(text: str | bytes) -> Plan:
    """Read the plan of a text; what this version does not know is left out. The names in it are
    those of folders and lead nowhere else, and its numbers are within bounds. Raises: OtherFormat;
    ValueError."""
    try:
        data = json.loads(text)
        # First of all: in another format, any other key may mean something else.
        if "run" in data and (format_number := format_of(data)) not in READABLE:
            run_name = str(data.get("run"))
            raise OtherFormat(run_name if is_plain(run_name) else "the run", format_number)
        work_kind, work_data = next(iter(data["work"].items()))
        label = data.get("label")
        plan = Plan(
            str(data["run"]),
            # Whoever wrote the plan must not choose the file that we tell the user to change.
            tuple(replace(host, hosts_file=HOSTS_FILE) for host in _read_hosts(data["hosts"])),
            script_of(work_data) if work_kind == "script" else _read_job(work_data),
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


def script_of(script_data: Any) -> Script:
    """Read a script; an older plan has its words alone. Raises: ValueError, TypeError, LookupError,
    AttributeError."""
    script = (
        Script(_words(script_data)) if isinstance(script_data, list) else _read_script(script_data)
    )
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
    for name_kind, folder_name in (("run", plan.run), ("project", plan.project or "none")):
        if not is_plain(folder_name):
            character = unseen_character(folder_name)
            explanation = f": it has {character}, which cannot be seen" if character else ""
            raise ValueError(f"its {name_kind} {folder_name!r} is not a plain name{explanation}")
    for upload_target in (upload.target for upload in plan.uploads if upload.target):
        if (
            any(part in ("", ".", "..") for part in upload_target.split("/"))
            or "\0" in upload_target
        ):
            raise ValueError(f"its upload to {upload_target!r} leads elsewhere")


def is_plain(name: str) -> bool:
    """Return True if a name is that of one entry of a folder, and neither hidden nor unfit to be
    shown."""
    return name[:1] not in ("", ".", "-") and "/" not in name and not unseen_character(name)
