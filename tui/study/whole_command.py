"""The command line of a whole study, whose short variant says little."""

from __future__ import annotations

import shlex
from pathlib import Path

from remote.study.folder import StudyFolder
from remote.study.start_study import QUICK
from remote.study.study import Study, StudyError
from remote.study.study_file import read_bundled_studies
from training.job import Job, JobError


def format_whole_command(study: Study, runs_dir: Path) -> str:
    """Return the command of a quick study without --quick; "" where it is not known."""
    name = study.name.removesuffix(QUICK)
    # Where the file of another study lies is not recorded.
    if not study.is_quick or name not in read_bundled_studies():
        return ""
    try:
        call = StudyFolder.of(runs_dir, study.name).call()
        job_flags = Job.of(call.given).flags(call.given)
    except (StudyError, JobError, TypeError):
        return ""
    if not call.is_trusted:
        return ""
    words = ["rankboard", "study", name]
    for option_name, value in call.places.items():
        flag = "--num-hosts" if option_name == "nodes" else f"--{option_name}"
        words += [flag] if value is True else [flag, str(value)]
    words += job_flags
    if runs_dir.absolute() != Path("runs").absolute():
        words += ["--runs-dir", str(runs_dir)]
    return shlex.join(words)
