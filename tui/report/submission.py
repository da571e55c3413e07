"""The archive that an assignment asks for.

NAME/
    report/            the report: report.html, report.md, pictures, values
    configuration/     STUDY.toml of each study, RUN.json of each run: the plan, without secrets
    logs/RUN/          rank-N.log of every rank; report.txt, the classification report
    code/              the sync methods that were used, with the code that they share; of a user's
                       own program the script, as it is on this machine now
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from remote.figures.run import RunFigures
from remote.record import summary
from remote.record.files import is_folder
from remote.record.layout import LOGS, REPORT
from remote.record.read import load_plan
from tui.report.markdown import PICTURES
from tui.report.subject import Subject
from tui.report.write import FILES

SUFFIX, SCRIPT = ".zip", ".py"
LARGEST = 2**20
"""Bytes of a script."""
SHARED = ("__init__.py", "parts")
"""What all sync methods share."""


def write(target: Path, report: Path, subjects: Sequence[Subject], studies: dict[str, str]) -> None:
    """Write the archive of a report that is written. `studies` are the texts of study files by
    name. Raises: OSError."""
    name = target.name.removesuffix(SUFFIX)
    runs = [run for subject in subjects for run in subject.runs]
    part = target.with_name(f".{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in _files(report, runs, studies):
            entry = zipfile.ZipInfo(f"{name}/{path}")  # of 1980, so that equal reports are equal
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    part.replace(target)


def _files(
    report: Path, runs: Sequence[RunFigures], studies: dict[str, str]
) -> Iterator[tuple[str, bytes]]:
    pictures = sorted((report / PICTURES).iterdir())
    for path in (*(report / name for name in FILES), *pictures):
        yield f"report/{path.relative_to(report)}", path.read_bytes()
    for name, text in studies.items():
        yield f"configuration/{name}.toml", text.encode()
    for run in runs:
        yield from _of_run(run)
    yield from _scripts(runs)
    yield from _code(sorted({run.job.sync for run in runs if run.job}))


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


def _code(methods: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    folder = resources.files("training") / "sync"
    for name in (*(f"{method}.py" for method in methods), *(SHARED if methods else ())):
        yield from _source(folder / name, f"code/sync/{name}")


def _source(found: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    if found.is_file() and name.endswith(".py"):
        yield name, found.read_bytes()
    elif found.is_dir() and not name.endswith("__pycache__"):
        for inner in sorted(found.iterdir(), key=lambda one: one.name):
            yield from _source(inner, f"{name}/{inner.name}")
