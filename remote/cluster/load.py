"""Loading a hosts file. Its reader is imported only for a file: it takes as long as all else."""

from __future__ import annotations

from pathlib import Path

from remote.cluster.hosts import SSH_CONFIG, Cluster


def load(path: Path, ssh_config: Path = SSH_CONFIG) -> Cluster:
    """Load the cluster of a hosts file; `ssh_config`, if it exists, fills what the file leaves out.

    Raises: HostsError.
    """
    from remote.cluster.file import read

    return read(path, ssh_config)
