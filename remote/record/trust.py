"""What a recorded plan may decide, and where everything else comes from.

A run directory is data, and so is a plan that a host keeps: either may be somebody else's work.
Such a plan decides what `harmless` takes from it. The ways to its hosts come from the operator's
hosts file, the number of restarts from flags. A plan that this user's rankboard recorded is signed
with a key of the user's, and stands for the hosts file and flags of its launch.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sys
from dataclasses import replace
from pathlib import Path

from remote.cluster.hosts import LOCAL, Cluster, Host
from remote.cluster.rules import rules_for
from remote.format import listed
from remote.limits import LIMITS
from remote.plan.plan import Plan, PlanError, Policy, Script
from remote.record import files
from remote.record.layout import ELSEWHERE, PLAN, SIGNATURE
from training.writing import make_private_folders, write_whole

KEY_BYTES = 32


def harmless(plan: Plan) -> Plan:
    """Return the harmless part of a plan that somebody else may have written: the names and work,
    and the hosts' names, their order, and how many ranks and threads each has, on which interface.
    Its hosts have no address, it is never restarted, and no rule of it reads what the ranks
    print."""
    bare_hosts = tuple(
        Host(host.name, "", slots=host.slots, threads=host.threads, interface=host.interface)
        for host in plan.hosts
    )
    recorded_policy = plan.policy
    harmless_policy = Policy(
        keep=recorded_policy.keep,
        on_stall=recorded_policy.on_stall,
        min_nodes=recorded_policy.min_nodes,
        on_nan=recorded_policy.on_nan,
        fetch=recorded_policy.fetch,
    )
    work = plan.work
    rules_left_out = 0
    if isinstance(work, Script):
        rules_left_out = len(work.rules)
        work = replace(work, rules=())
    harmless_plan = Plan(
        plan.run, bare_hosts, work, harmless_policy, project=plan.project, label=plan.label
    )
    return replace(harmless_plan, rules_left_out=rules_left_out)


def with_ways(plan: Plan, cluster: Cluster) -> Plan:
    """Return the plan with the hosts of the operator's file, except for what `harmless` takes from
    the plan, and with the operator's rules in place of those that were left out. Raises: PlanError,
    where the file lacks a host; HostsError, of the rules in rankboard.toml."""
    known_hosts = {host.name: host for host in cluster.hosts}
    missing_names = [host.name for host in plan.hosts if host.name not in known_hosts]
    if missing_names:
        raise PlanError(
            f"{plan.run} runs on hosts that {cluster.file or cluster.name} does not have: "
            f"{listed(missing_names)}. "
            f'Add a [[host]] with name = "{missing_names[0]}" and its address, or give another '
            "file with --hosts"
        )
    placed_hosts = (
        replace(
            known_hosts[host.name], slots=host.slots, threads=host.threads, interface=host.interface
        )
        for host in plan.hosts
    )
    work = plan.work
    if isinstance(work, Script) and plan.rules_left_out:
        work = replace(work, rules=rules_for(cluster))
    return replace(plan, hosts=tuple(placed_hosts), work=work)


def on_this_machine(plan: Plan, workdir: Path) -> Plan:
    """Return the plan of a run with --local, whose hosts are this machine and keep their files in
    `workdir`, whatever the plan says."""
    local_host = Host("", "127.0.0.1", python=sys.executable, workdir=str(workdir), transport=LOCAL)
    local_hosts = tuple(replace(local_host, name=host.name) for host in plan.hosts)
    return with_ways(plan, Cluster("this machine", local_hosts))


def has_ways(plan: Plan) -> bool:
    """Return True if the plan says how to reach its hosts."""
    return all(host.address for host in plan.hosts)


def unknown(plan: Plan, explanation: str) -> str:
    """Return the message where nothing says how to reach the hosts of a plan, and why."""
    return (
        f"{plan.run}: you did not record its plan.json here, so your hosts file has to say how to "
        "reach "
        f"{listed([host.name for host in plan.hosts])}. {explanation}"
    )


# Signatures ---------------------------------------------------------------------------------------


def signature(data: bytes, kind: str = PLAN) -> str:
    """Proves later that this user recorded the data, a file of this kind; "" where the user's
    configuration cannot hold a key."""
    try:
        key = _key()
    except (OSError, RuntimeError):  # a user without a home
        return ""
    # The prefix keeps a signature of one kind of data from meaning anything for another.
    return hmac.new(key, f"rankboard {kind}\n".encode() + data, hashlib.sha256).hexdigest()


def is_ours(folder: Path, data: bytes) -> bool:
    """Return whether this user recorded the plan.json of a run directory, which has these data."""
    try:
        return is_signed(data, files.read(folder / SIGNATURE, LIMITS.small_file))
    except OSError:
        return False


def is_started_here(folder: Path) -> bool:
    """Return whether this user started the run of a run directory from here. Commands that only
    read a run also record it, and sign its plan."""
    try:
        data = files.read(folder / PLAN, LIMITS.plan)
    except OSError:
        return False
    return is_ours(folder, data) and not (folder / ELSEWHERE).exists()


def is_signed(data: bytes, found_signature: bytes, kind: str = PLAN) -> bool:
    """Return True if this user made the signature for these data, a file of this kind."""
    own_signature = signature(data, kind)
    return bool(own_signature) and hmac.compare_digest(
        own_signature.encode(), found_signature.strip()
    )


def _key() -> bytes:
    """Return the user's key. One that others can read is replaced. Raises: OSError."""
    config_folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    key_path = config_folder / "rankboard" / "key"
    key = _read_key(key_path)
    if key is None:
        make_private_folders(key_path.parent)
        # Where there is none, nothing is removed: another command may make one at any time.
        if os.path.lexists(key_path) and _read_key(key_path) is None:
            _remove_unfit_key(key_path)
        new_path = _draw_path(key_path)
        write_whole(new_path, secrets.token_hex(KEY_BYTES).encode())
        try:
            # Unlike a rename, this fails where another command has just made the key.
            os.link(new_path, key_path)
        except FileExistsError:  # of two that are made at once, the first stays
            pass
        except OSError:  # a disk without hard links
            os.replace(new_path, key_path)
        finally:
            new_path.unlink(missing_ok=True)
        key = _read_key(key_path)
    if key is None:
        raise OSError(f"{key_path} cannot be kept")
    return key


def _remove_unfit_key(key_path: Path) -> None:
    """Remove a key that others can read, but none that another command has put in its place.
    Raises: OSError."""
    removed_path = _draw_path(key_path)
    try:
        os.rename(key_path, removed_path)
    except FileNotFoundError:  # another command was faster
        return
    if _read_key(removed_path) is None:
        removed_path.unlink()
    else:
        os.replace(removed_path, key_path)


def _draw_path(key_path: Path) -> Path:
    """Return a path beside the key that no other command has."""
    return key_path.with_name(f".key.{secrets.token_hex(8)}")


def _read_key(key_path: Path) -> bytes | None:
    try:
        file_status = key_path.lstat()
        key = bytes.fromhex(files.read(key_path, LIMITS.small_file).decode())
    except (OSError, ValueError):
        return None
    is_private = file_status.st_uid == os.geteuid() and not file_status.st_mode & 0o077
    return key if is_private and len(key) == KEY_BYTES else None
