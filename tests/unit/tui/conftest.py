"""What all tests of the dashboard share."""

from pathlib import Path

import pytest

from tests.kit.idle import idle

__all__ = ["idle"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of another test is remembered, and nothing is saved in the checkout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
