"""What lies where on a host: every name in its workdir, once. The launcher and the agent use it.

    WORKDIR/
      code/DIGEST-PYTHON/         rankboard's code
      files/PROJECT/              what the operator uploads; the ranks work there
      runs/RUN/HOST/              one run on the host with this number:
        lock                      held by the guard as long as it lives
        agent.sock, agent.log     the agent's socket; its own errors, and those of the guard
        NUMBER.journal, reserve   the records of the agent; room for the last ones on a full disk
        plan.json, code           the plan; the path of the code that the agent runs
        stacks/PID                where a rank is
        checkpoints/step-NUMBER/  complete once manifest.json is there
        reports/                  what the ranks report
        errors/ATTEMPT-RANK.json  why a script failed

With `--local` the workdir is `node/` in the run's own directory.
"""

from __future__ import annotations

import os

RUNS = "runs"
ARCHIVES = "code"
UPLOADS = "files"
LOCK = "lock"
SOCKET = "agent.sock"
LOG = "agent.log"
JOURNAL = ".journal"
RESERVE = "reserve"
PLAN = "plan.json"
CODE = "code"
STACKS = "stacks"
CHECKPOINTS = "checkpoints"
STEP = "step-"
MANIFEST = "manifest.json"
REPORTS = "reports"
ERRORS = "errors"
NODE = "node"
LAST = "last"
"""Stands for the name of the newest run."""

SAVED = f"{CHECKPOINTS}/{STEP}*/{MANIFEST}"
"""The glob pattern, below a run's folder, of the complete checkpoints."""


def run_folder(workdir: str, run: str, host: int) -> str:
    """Return the folder of a run on a host."""
    return f"{workdir}/{RUNS}/{run}/{host}"


def workdir_of(folder: str) -> str:
    """Return the workdir in which a run's folder lies."""
    return os.path.dirname(os.path.dirname(os.path.dirname(folder)))


def expand_path(path: str) -> str:
    """Return an absolute path; `~` is the home directory of this machine's user."""
    return os.path.abspath(os.path.expanduser(path))


def step_of(manifest: str | os.PathLike[str]) -> int:
    """Return the step of a checkpoint by the path of its manifest; 0 if the path has none."""
    number = os.path.basename(os.path.dirname(manifest)).removeprefix(STEP)
    return int(number) if number.isdecimal() else 0
