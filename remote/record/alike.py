"""Order recorded runs by how similar they are to one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from remote.record.entry import Entry


class SimilarRun(NamedTuple):
    """A run, and the settings in which it differs, as they are called in `rankboard compare`."""

    run: Entry
    differing: tuple[str, ...]


def find_similar(run: Entry, runs: Iterable[Entry]) -> list[SimilarRun]:
    """Return the other runs that have made steps, the most similar first; of runs that differ in as
    many settings, the newest first."""
    own_settings = _describe(run)
    similar = list[SimilarRun]()
    for other in runs:
        if other.name == run.name or not other.step or other.problem:
            continue
        settings = _describe(other)
        names = own_settings | settings
        differing = [name for name in names if own_settings.get(name) != settings.get(name)]
        similar.append(SimilarRun(other, tuple(differing)))
    similar.sort(key=lambda other: (len(other.differing), -(other.run.started or 0.0)))
    return similar


def _describe(run: Entry) -> dict[str, object]:
    """Return what a run was, without the seed, which no two runs need to share."""
    job = {name.replace("_", "-"): value for name, value in (run.job or {}).items()}
    job.pop("seed", None)
    return {"program": run.script, **job, "nodes": len(run.hosts), "ranks": run.ranks}
