"""A plan as JSON text, for the run directory and for the hosts, and back."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, fields, replace
from typing import Any, get_type_hints

from remote.cluster.hosts import HOSTS_FILE, Host, host_keys
from remote.plan.plan import OnNan, OnStall, Plan, PlanError, Policy, Script, Upload, is_label
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
    hosts = [_host_table(host) for host in plan.hosts]
    data = {
        "format": FORMAT,
        "run": plan.run,
        "hosts": hosts,
        "work": {kind: asdict(plan.work)},
        "policy": asdict(plan.policy),
        "launcher": launcher,
    }
    data |= {"uploads": [asdict(upload) for upload in plan.uploads], "project": plan.project}
    data |= {"label": plan.label} if plan.label else {}
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
        hosts = tuple(_host(table) for table in data["hosts"])
        kind, work = next(iter(data["work"].items()))
        done: Job | Script = script_of(work) if kind == "script" else _job(work)
        uploads = tuple(map(_read_upload, data.get("uploads", [])))
        plan = Plan(
            str(data["run"]),
            hosts,
            done,
            _policy(data.get("policy", {})),
            uploads,
            str(data.get("project", "")),
            label=_label(data.get("label")),
        )
    except (LookupError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise ValueError(str(error)) from error
    _check_names(plan)
    return plan


def _label(data: Any) -> str:
    """Return the name that a person gave the run; "" where nobody could have given this one."""
    return data if isinstance(data, str) and is_label(data) else ""


_words = decoder_of(tuple[str, ...])
_read_script = decoder_of(Script)
_read_host = decoder_of(Host)
_read_upload = decoder_of(Upload)


def _host_table(host: Host) -> dict[str, Any]:
    return {key.name: getattr(host, key.name) for key in host_keys()}


def _host(table: dict[str, Any]) -> Host:
    # Whoever wrote the plan must not choose the file that we tell the user to change.
    host: Host = _read_host(table)
    return replace(host, hosts_file=HOSTS_FILE)


def script_of(data: Any) -> Script:
    """Read a script; an older plan has its words alone. Raises: ValueError, TypeError, LookupError,
    AttributeError."""
    script = Script(_words(data)) if isinstance(data, list) else _read_script(data)
    if not script.words:
        raise ValueError("its program has no words")
    return script


def _job(data: dict[str, Any]) -> Job:
    """Read a job. Raises: ValueError, TypeError."""
    hints = get_type_hints(Job)
    return Job.of(
        {name: decoder_of(hints[name])(value) for name, value in _known(Job, data).items()}
    )


def _policy(data: dict[str, Any]) -> Policy:
    said = _known(Policy, data)
    on_stall = OnStall(said.pop("on_stall", OnStall.REPORT))
    on_nan = OnNan(said.pop("on_nan", OnNan.WARN))
    readers = {field.name: decoder_of(type(field.default)) for field in fields(Policy)}
    return Policy(
        **{name: readers[name](value) for name, value in said.items()},
        on_stall=on_stall,
        on_nan=on_nan,
    )


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


def _known(cls: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    return {field.name: data[field.name] for field in fields(cls) if field.name in data}
