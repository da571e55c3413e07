"""The versions of packages: those that uv installs are those that pip installs."""

from __future__ import annotations

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
