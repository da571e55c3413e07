"""Compares the versions of packages with the requirements of pip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase


def lacking(versions: Mapping[str, str], requirements: Sequence[str]) -> dict[str, str]:
    """Return the packages that do not meet pip's requirements, each with the version that is
    required, "" for any."""
    required_versions: dict[str, str] = {}
    for requirement in requirements:
        package, _, version = requirement.partition("==")
        required_versions[package] = version
    lacks: dict[str, str] = {}
    for package, version in versions.items():
        required = required_versions.get(package, "")
        if not _meets(version, required):
            lacks[package] = required
    return lacks


def _meets(version: str, required: str) -> bool:
    """Compare as pip does: 2.14.0+cpu meets 2.14.0, 2.14 and 2.14.*."""
    if not required:
        return version != ""
    public_version = version.partition("+")[0]
    for pattern in (required, f"{required}.0"):
        if fnmatchcase(version, pattern) or fnmatchcase(public_version, pattern):
            return True
    return False
