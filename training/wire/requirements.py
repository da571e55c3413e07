"""Compares the versions of packages with the requirements of pip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase


def lacking(versions: Mapping[str, str], requirements: Sequence[str]) -> dict[str, str]:
    """The packages that are not there as pip's requirements want them: the version that is wanted
    of each, "" for any."""
    wanted = dict(requirement.partition("==")[::2] for requirement in requirements)
    asked = {package: wanted.get(package, "") for package in versions}
    return {
        package: version
        for package, version in asked.items()
        if not _meets(versions[package], version)
    }


def _meets(found: str, wanted: str) -> bool:
    """As pip sees it: 2.14.0+cpu is what 2.14.0, 2.14 and 2.14.* ask for."""
    patterns = (wanted, f"{wanted}.0") if wanted else ("?*",)
    return any(
        fnmatchcase(one, pattern)
        for one in (found, found.partition("+")[0])
        for pattern in patterns
    )
