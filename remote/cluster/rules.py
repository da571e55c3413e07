"""The user's own rules for reading logs: those of rankboard.toml, and of the hosts file."""

from __future__ import annotations

from pathlib import Path

from remote.cluster.hosts import HOSTS_FILE, Cluster
from remote.cluster.load import load
from remote.formats.rules import Rule

RULES_FILE = "rankboard.toml"
"""Where rules stand that are not of one cluster, in the folder of the command."""


def own_rules(hosts_file: Path | None) -> tuple[Rule, ...]:
    """Load the rules that are tried before all formats. A hosts file that is not named counts if it
    is there. Raises: HostsError with all mistakes."""
    if hosts_file is not None or Path(HOSTS_FILE).exists():
        return rules_for(load(hosts_file or Path(HOSTS_FILE)))
    return folder_rules(Path())


def rules_for(cluster: Cluster) -> tuple[Rule, ...]:
    """Load the rules for a run on these hosts: those of this folder first. Raises: HostsError."""
    return (*folder_rules(Path()), *cluster.rules)


def folder_rules(folder: Path) -> tuple[Rule, ...]:
    """Load the rules of the rankboard.toml of a folder, if it has one. Raises: HostsError."""
    rules_path = folder / RULES_FILE
    if not rules_path.exists():
        return ()
    from remote.cluster.file import read_rules

    return read_rules(rules_path)
