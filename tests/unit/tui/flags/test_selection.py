"""The hosts that a command line selects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.flags.selection import select_usual


def test_without_a_hosts_file_the_form_starts_with_four_ranks_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    selection = select_usual()
    assert [(host.transport, host.slots) for host in selection.cluster.hosts] == [("local", 4)]
    assert "hosts.toml" in selection.cluster.remarks[0]


def test_a_mistake_in_the_hosts_file_is_remarked_and_this_machine_is_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    (tmp_path / "hosts.toml").write_text("[[host]]\nadress = 'a'\n")
    selection = select_usual()
    assert [host.transport for host in selection.cluster.hosts] == ["local"]
    assert "adress" in selection.cluster.remarks[0]
