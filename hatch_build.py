"""Builds the wheel: our code goes below `rankboard`, so that it takes one name in site-packages."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OUR_PACKAGES = ("tui", "training", "remote")


class PrivateCode(BuildHookInterface):  # type: ignore[type-arg]
    """Puts our packages into `rankboard/_code`. An editable installation finds them where they
    are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what goes where, see `BuildHookInterface`."""
        if version == "standard":
            for package in OUR_PACKAGES:
                build_data["force_include"][package] = f"rankboard/_code/{package}"
