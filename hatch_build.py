"""Builds the wheel: our code goes below `rankboard`, so that it takes one name in site-packages.

Its metadata names the repository that it comes from, and has a list of what it has and needs, as
PEP 770 says."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OUR_PACKAGES = ("tui", "training", "remote")
SBOM_FILE = "rankboard.cdx.json"
BUNDLED_DATA = Path("training/datasets/digits.gz")
BUNDLED_LICENSE = "CC-BY-4.0"
"""The only file of the wheel that others made; the page beside it says who."""
REPOSITORY_URL = "REPOSITORY_URL"
"""The variable with the address of the repository on its forge. A forge knows it, a checkout does
not: it may be a copy of a copy."""
PAGES = {
    "Repository": "",
    "Documentation": "/blob/main/docs/index.md",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
}
"""The pages of a repository by their labels in the metadata."""


class RepositoryLinks(MetadataHookInterface):
    """Links the metadata to the repository, if `REPOSITORY_URL` names it. Building from a source
    archive keeps the links of the archive."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the links, see `MetadataHookInterface`. Raises: ValueError."""
        url = os.environ.get(REPOSITORY_URL, "").rstrip("/")
        if not url:
            return
        if not url.startswith(("https://", "http://")):
            raise ValueError(f"{REPOSITORY_URL} is {url}: write it as https://HOST/OWNER/NAME")
        metadata["urls"] = {label: url + page for label, page in PAGES.items()}


class PrivateCode(BuildHookInterface):  # type: ignore[type-arg]
    """Puts our packages into `rankboard/_code`. An editable installation finds them where they
    are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what goes where, see `BuildHookInterface`."""
        if version != "standard":
            return
        for package in OUR_PACKAGES:
            build_data["force_include"][package] = f"rankboard/_code/{package}"
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, SBOM_FILE)
        path.write_text(json.dumps(self._write_sbom(), indent=2) + "\n")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete what was made for the build."""
        if version == "standard":
            self._folder.cleanup()

    def _write_sbom(self) -> dict[str, Any]:
        """Return the bill of materials, in the format of CycloneDX. Without time and serial number,
        so that the same checkout gives the same wheel."""
        core = self.metadata.core
        root = Path(self.root)
        pins = read_pins((root / "constraints.txt").read_text())
        product = {
            **describe_package(core.name, core.version, "application"),
            "description": core.description,
            "licenses": [{"license": {"id": core.license_expression}}],
        }
        extras = [
            requirement
            for extra, requirements in core.optional_dependencies.items()
            if extra != "dev"
            for requirement in requirements
        ]
        needed_names = find_names(core.dependencies)
        optional_names = find_names(extras) - needed_names - {core.name}
        needed = [describe_requirement(name, pins, "required") for name in sorted(needed_names)]
        optional = [describe_requirement(name, pins, "optional") for name in sorted(optional_names)]
        components = [*needed, *optional]
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": product},
            "components": [describe_data(root), *components],
            "dependencies": [
                {
                    "ref": product["bom-ref"],
                    "dependsOn": [component["bom-ref"] for component in components],
                }
            ],
        }


def read_pins(constraints: str) -> dict[str, str]:
    """Return the versions that the tests have run with, by the name of the package."""
    requirements = map(Requirement, constraints.splitlines())
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in requirements
    }


def find_names(requirements: Iterable[str]) -> set[str]:
    """Return the names of the packages that are required."""
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def describe_requirement(name: str, pins: Mapping[str, str], scope: str) -> dict[str, Any]:
    """Return what is said of a package that is required, in the version that was tested."""
    return {**describe_package(name, pins[name], "library"), "scope": scope}


def describe_package(name: str, version: str, kind: str) -> dict[str, Any]:
    """Return what is said of a package of PyPI."""
    purl = f"pkg:pypi/{name}@{version}"
    return {"bom-ref": purl, "type": kind, "name": name, "version": version, "purl": purl}


def describe_data(root: Path) -> dict[str, Any]:
    """Return what is said of the bundled data set."""
    digest = hashlib.sha256((root / BUNDLED_DATA).read_bytes()).hexdigest()
    return {
        "bom-ref": BUNDLED_DATA.name,
        "type": "data",
        "name": BUNDLED_DATA.name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "licenses": [{"license": {"id": BUNDLED_LICENSE}}],
        "scope": "required",
    }
