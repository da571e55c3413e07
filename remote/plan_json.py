"""A plan as JSON text, for the run directory and for the hosts, and back."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, fields
from importlib import metadata
from typing import Any

from remote.hosts import Host
from remote.plan import OnStall, Plan, Policy, Script, Upload
from training.codec import reader_of
from training.job import Job


def dump(plan: Plan) -> str:
    """The plan, and with which versions it was launched."""
    work = {"script": plan.work.words} if isinstance(plan.work, Script) else {"job": asdict(plan.work)}
    launcher = {
        "rankboard": metadata.version("rankboard"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
    }
    hosts = [asdict(host) for host in plan.hosts]
    data = {"run": plan.run, "hosts": hosts, "work": work, "policy": asdict(plan.policy), "launcher": launcher}
    data |= {"uploads": [asdict(upload) for upload in plan.uploads], "project": plan.project}
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def parse(text: str | bytes) -> Plan:
    """The plan of a text; what another version has written and this one does not know is left out. Raises: ValueError."""
    try:
        data = json.loads(text)
        hosts = tuple(map(reader_of(Host), data["hosts"]))
        kind, work = next(iter(data["work"].items()))
        done: Job | Script = Script(tuple(work)) if kind == "script" else Job.of(_known(Job, work))
        policy = _known(Policy, data.get("policy", {}))
        policy["on_stall"] = OnStall(policy.get("on_stall", OnStall.REPORT))
        uploads = tuple(map(reader_of(Upload), data.get("uploads", [])))
        return Plan(str(data["run"]), hosts, done, Policy(**policy), uploads, str(data.get("project", "")))
    except (LookupError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(str(error)) from error


def _known(cls: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    return {field.name: data[field.name] for field in fields(cls) if field.name in data}
