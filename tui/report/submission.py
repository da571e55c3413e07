"""The archive that an assignment asks for.

NAME/
    README.md          what is what, and where to begin
    report/            the report: report.html, report.md, pictures, values
    configuration/     STUDY.toml of each study, RUN.json of each run: the plan, without secrets
    logs/RUN/          rank-N.log of every rank; report.txt, the classification report
    code/training/     training loop, models and sync methods, as they are installed now; of a
                       user's own program code/ has the script, as it is on this machine now
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from remote.metrics.run import RunFigures
from remote.record import summary
from remote.record.files import is_folder
from remote.record.layout import LOGS, REPORT
from remote.record.read import load_plan
from remote.sanitise import one_line
from tui.report.markdown import code, plain, row
from tui.report.subject import Subject

SUFFIX = ".zip"
SCRIPT = ".py"
LARGEST = 2**20
"""Bytes of a script."""
CODE = "training"
"""The package that runs on the hosts."""
CACHE = "__pycache__"
FOLDERS = {
    "report/": "the report: open report.html in a browser; report.md is the same to edit",
    "configuration/": "the file of each study, and the plan of each run as JSON",
    "logs/": "of each run the output of every rank, and the classification report",
    "code/": "the code of the training, as it is installed now",
}


def write(
    target: Path, report: Sequence[str], subjects: Sequence[Subject], studies: dict[str, str]
) -> None:
    """Write the archive of a report that is written beside it, in these files. `studies` are the
    texts of study files by name. Raises: OSError."""
    name = target.name.removesuffix(SUFFIX)
    runs = [run for subject in subjects for run in subject.runs]
    now = time.localtime()[:6]
    part = target.with_name(f".{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        readme = _readme(name, subjects, runs).encode()
        for path, data in (("README.md", readme), *_files(target.parent, report, runs, studies)):
            entry = zipfile.ZipInfo(f"{name}/{path}", now)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    part.replace(target)


def _files(
    folder: Path, report: Sequence[str], runs: Sequence[RunFigures], studies: dict[str, str]
) -> Iterator[tuple[str, bytes]]:
    for name in sorted(report):
        yield f"report/{name}", (folder / name).read_bytes()
    for name, text in studies.items():
        yield f"configuration/{name}.toml", text.encode()
    for run in runs:
        yield from _of_run(run)
    yield from _scripts(runs)
    if any(run.job for run in runs):
        yield from _source(resources.files(CODE), f"code/{CODE}")


def _of_run(run: RunFigures) -> Iterator[tuple[str, bytes]]:
    """The plan and the logs of a run. A link is not followed: the folder may be somebody else's."""
    plan = json.dumps(summary.plan(load_plan(run.folder)), indent=2) + "\n"
    yield f"configuration/{run.name}.json", plan.encode()
    logs = run.folder / LOGS
    found = sorted(logs.glob("rank-*.log")) if is_folder(logs) else []
    for path in (*found, run.folder / REPORT):
        if path.is_file() and not path.is_symlink():
            yield f"logs/{run.name}/{path.name}", path.read_bytes()


def _scripts(runs: Sequence[RunFigures]) -> Iterator[tuple[str, bytes]]:
    """The scripts of runs that this user has recorded: another's plan names no file of ours."""
    found = {path.name: path for run in runs for path in _script(run)}
    for name, path in found.items():
        yield f"code/{name}", path.read_bytes()


def _script(run: RunFigures) -> Iterator[Path]:
    for upload in load_plan(run.folder).uploads if run.script else ():
        source = Path(upload.source)
        for word in run.script:
            path = source if source.name == Path(word).name else source / word
            if path.suffix == SCRIPT and path.is_file() and path.stat().st_size <= LARGEST:
                yield path


def _readme(name: str, subjects: Sequence[Subject], runs: Sequence[RunFigures]) -> str:
    """What the archive holds, as Markdown."""
    lines = [f"# {plain(name)}", ""]
    lines += [f"- {plain(subject.heading)}" for subject in subjects]
    lines += ["", row(("folder", "what it is")), "|---|---|"]
    lines += [row(one) for one in FOLDERS.items()]
    parts = _parts(runs)
    if parts:
        lines += ["", "The parts of the code that decide what was trained, and how:", ""]
        lines += [code([one_line(f"{path}  {what}") for what, path in parts])]
    commands = [subject.again for subject in subjects if subject.again]
    commands += [
        group.command
        for subject in subjects
        if not subject.again
        for group in subject.groups
        if group.command
    ]
    if commands:
        lines += ["", "Commands that repeat it:", "", code(list(map(one_line, commands)))]
    return "\n".join([*lines, ""])


def _parts(runs: Sequence[RunFigures]) -> list[tuple[str, str]]:
    """The files that a reader wants to see first."""
    jobs = [run.job for run in runs if run.job]
    if not jobs:
        return []
    found = [("training loop", "loop.py")]
    for what, folder, names in (
        ("model", "models", [job.model for job in jobs]),
        ("data set", "datasets", [job.dataset for job in jobs]),
        ("sync method", "sync", [job.sync for job in jobs]),
    ):
        found += [
            (f"{what} {name}", f"{folder}/{name.partition('/')[0]}.py")
            for name in dict.fromkeys(names)
        ]
    return [(what, f"code/{CODE}/{path}") for what, path in found]


def _source(found: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    if found.is_file():
        yield name, found.read_bytes()
    elif found.is_dir() and not name.endswith(CACHE):
        for inner in sorted(found.iterdir(), key=lambda one: one.name):
            yield from _source(inner, f"{name}/{inner.name}")
