"""Versions: what uv installs is what pip installs, and the release is the same everywhere."""

from __future__ import annotations

import re

import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.kit.agents import ROOT


def test_both_files_of_versions_say_the_same() -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    versions = {package["name"]: package["version"] for package in locked}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert versions.pop("rankboard") == project["version"]
    constraints = map(Requirement, (ROOT / "constraints.txt").read_text().splitlines())
    pinned = {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in constraints
    }
    assert pinned == versions


def test_the_release_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    releases = re.findall(
        r"^## ([\d.]+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert citation
    assert citation[1] == releases[0] == project["version"]
