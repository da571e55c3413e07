"""Recorded runs by how much they are like one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from remote.record.entry import Entry


class Alike(NamedTuple):
    """A run, and the settings in which it differs, as they are called in `rankboard compare`."""

    run: Entry
    differing: tuple[str, ...]


def most_alike(run: Entry, runs: Iterable[Entry]) -> list[Alike]:
    """The other runs that have made steps, most alike first; of runs that are equally alike, the
    newest first."""
    mine = _settings(run)
    found = []
    for one in runs:
        if one.name != run.name and one.step and not one.problem:
            theirs = _settings(one)
            names = dict.fromkeys((*mine, *theirs))
            differing = (name for name in names if mine.get(name) != theirs.get(name))
            found.append(Alike(one, tuple(differing)))
    found.sort(key=lambda other: other.run.started or 0.0, reverse=True)
    return sorted(found, key=lambda other: len(other.differing))


def _settings(run: Entry) -> dict[str, object]:
    """What a run was, but for the seed, which no two runs need to share."""
    job = {name.replace("_", "-"): value for name, value in (run.job or {}).items()}
    job.pop("seed", None)
    return {"program": run.script, **job, "nodes": len(run.hosts), "ranks": run.ranks}
