"""Loading hosts: of a file, of a list, or of the job that the shell is in. The readers are imported
only when they are needed: they take as long as all else."""

from __future__ import annotations

import os
from pathlib import Path

from remote.cluster.hosts import HOSTS_FILE, SSH_CONFIG, Cluster


def load(path: Path, ssh_config: Path = SSH_CONFIG) -> Cluster:
    """Load the cluster of a hosts.toml or a hostfile; `ssh_config`, if it exists, fills what the
    file leaves out.

    Raises: HostsError.
    """
    from remote.cluster.file import read

    return read(path, ssh_config)


def load_named(words: str, ssh_config: Path = SSH_CONFIG) -> Cluster:
    """Read the hosts of `-H a:4,b:4`. Raises: HostsError."""
    from remote.cluster.file import complete
    from remote.cluster.hostfile import listed

    return Cluster(words, *complete(listed(words), ssh_config))


def has_usual() -> bool:
    """Return True if there are hosts without any being named: see `load_usual`."""
    return is_slurm() or bool(_pbs()) or Path(HOSTS_FILE).exists()


def load_usual() -> Cluster:
    """Load the hosts if none are named: of the Slurm or PBS job that this shell is in, else of
    hosts.toml in this folder. Raises: HostsError."""
    # A job's own nodes come first: hosts.toml may be that of another cluster.
    return load_slurm() if is_slurm() else load(Path(_pbs() or HOSTS_FILE))


def load_slurm() -> Cluster:
    """Load the hosts of the Slurm job that this shell is in. Raises: HostsError."""
    from remote.cluster.slurm import allocation

    return allocation()


def is_slurm() -> bool:
    """Return True if this shell is in a Slurm job."""
    return bool(os.environ.get("SLURM_JOB_ID"))


def _pbs() -> str:
    return os.environ.get("PBS_NODEFILE", "")
