"""The pages on security say what holds: the tests that docs/reference/promises.md names are there,
and docs/reference/limits.md has the bounds of the code."""

from __future__ import annotations

import ast
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from remote.limits import Limits
from tests.kit.agents import ROOT

PROMISES = (ROOT / "docs" / "reference" / "promises.md").read_text()
LIMITS = (ROOT / "docs" / "reference" / "limits.md").read_text()
NAMED = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", PROMISES)
UNITS = {"": 1, "s": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_the_tests_that_the_page_names_are_there(file: str) -> None:
    module = ast.parse(Path(ROOT, "tests", file).read_text())
    functions = {
        one.name for one in module.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name for other, name in NAMED if other == file} <= functions


def test_the_page_has_the_bounds_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) ?(\w*) \|", LIMITS, re.MULTILINE)
    assert {name: float(number) * UNITS[unit] for name, number, unit in rows} == asdict(Limits())


def test_every_test_of_hostile_folders_hosts_and_files_is_counted() -> None:
    """What is not named on the page is at least in a file that it names."""
    files = {path.name for path in Path(ROOT, "tests", "hostile").glob("test_*.py")} - {
        Path(__file__).name
    }
    assert files == {
        file.removeprefix("hostile/") for file, _ in NAMED if file.startswith("hostile/")
    }
