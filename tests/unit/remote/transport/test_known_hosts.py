"""The known_hosts files, as OpenSSH reads them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from remote.transport.ssh.known_hosts import KnownKey, find_known_keys


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    return tmp_path / ".ssh" / "known_hosts"


@pytest.mark.parametrize(
    ("names", "address", "port", "known"),
    [
        ("node1", "node1", 22, True),
        ("node1", "NODE1", 22, True),
        ("node1", "node1", 2222, False),
        ("[node1]:2222", "node1", 2222, True),
        ("[node1]:2222", "node1", 22, False),
        ("a,10.0.0.1", "10.0.0.1", 22, True),
        ("*.lab,!bad.lab", "node1.lab", 22, True),
        ("*.lab,!bad.lab", "bad.lab", 22, False),
        ("node?", "node1", 22, True),
        ("node?", "node12", 22, False),
        ("[10.0.0.*]:2222", "10.0.0.7", 2222, True),
        ("|1|nonsense", "node1", 22, False),
    ],
)
def test_names(file: Path, names: str, address: str, port: int, known: bool) -> None:
    file.write_text(f"# a comment\n\n{names} ssh-ed25519 AAAA the comment\n")
    assert find_known_keys(address, port) == (
        (KnownKey(file, 3, "ssh-ed25519", "AAAA"),) if known else ()
    )


def test_hashed_names(file: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file.parent / "k")], check=True
    )
    key = (file.parent / "k.pub").read_text().split()[1]
    file.write_text(f"other,[node1]:2222 ssh-ed25519 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "node1" not in file.read_text()
    assert [known.key for known in find_known_keys("node1", 2222)] == [key]
    assert find_known_keys("node1", 22) == ()


def test_markers(file: Path) -> None:
    file.write_text("@revoked node1 ssh-rsa AAAA\n@cert-authority * ssh-rsa BBBB\n")
    assert find_known_keys("node1", 22) == (KnownKey(file, 1, "ssh-rsa", "AAAA", revoked=True),)


def test_no_file(file: Path) -> None:
    assert find_known_keys("node1", 22) == ()


def test_a_hosts_own_file_stands_for_all_others(file: Path, tmp_path: Path) -> None:
    file.write_text("node1 ssh-rsa AAAA\n")
    (tmp_path / "own").write_text("node2 ssh-rsa BBBB\n")
    assert find_known_keys("node1", 22, "~/own") == ()
    assert find_known_keys("node2", 22, "~/own") == (
        KnownKey(tmp_path / "own", 1, "ssh-rsa", "BBBB"),
    )
    assert find_known_keys("node2", 22) == ()
