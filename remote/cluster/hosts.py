"""`Host`, `Cluster`, and how to `load` hosts from hosts.toml and `select` some of them.

The parser of hosts files is imported only by `load`: a run on this machine does not need it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.cluster.value_schemas import (
    TEXT,
    Schema,
    fits_schema,
    list_of,
    one_of,
    table_of,
    text_like,
    whole_number,
)
from remote.sanitise import unseen_character
from training.mistake import Mistake, MistakeError
from training.registry import did_you_mean

if TYPE_CHECKING:
    from remote.formats.rules import Rule

SSH = "ssh"
"""The transport of a host that names none. ~/.ssh/config fills in what its table leaves out."""
LOCAL = "local"
"""The transport of the hosts of `--local`."""
LOCAL_NAME = re.compile(r"local\d*")
"""The names of the hosts that `--local` makes of this machine: local, or local1, local2, …."""
TRANSPORTS = (LOCAL, "slurm", SSH)
"""The modules of `remote.transport` that reach hosts. A plan may be the work of a host, and names
no other module."""
SSH_CONFIG = Path("~/.ssh/config")
HOSTS_FILE = "hosts.toml"
"""The hosts file if none is named."""
HOSTS = SLOTS = THREADS = RANKS = 4096
"""How many hosts a run has at most, slots and threads a host, and ranks a run."""
PLACE = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
}
"""Environment variables that the place of a rank sets."""
SHOWN = ("name", "address", "interface")
"""The keys of a host whose texts are shown to tell hosts apart."""
VARIABLE = text_like("[A-Za-z_][A-Za-z0-9_]*")
"""The name of an environment variable."""
VARIABLE_TEXT = text_like(r"[^\x00]*")
JUMPS = r"([^@\s,]+@)?[^@\s,]+(,([^@\s,]+@)?[^@\s,]+)*"


def _key(write: str, default: Any = MISSING, schema: Schema = TEXT) -> Any:
    """Declare a key of hosts.toml: `write` tells the user what to write, with an example; `schema`
    says which values it may have there."""
    return field(default=default, metadata={"write": write, "schema": schema})


@dataclass(frozen=True)
class Host:
    """One host, which runs `slots` ranks. Empty text and 0 stand for the default.

    Each field but the last is a key of hosts.toml.
    """

    name: str = _key('a text in quotes, such as name = "node1"')
    address: str = _key('a name or an IP address in quotes, such as address = "10.10.1.1"')
    """Where ssh connects."""
    user: str = _key('a login name in quotes, such as user = "ada"', "")
    port: int = _key(
        "a whole number from 1 to 65535, such as port = 22", 22, whole_number(1, 65535)
    )
    identity_file: str = _key('a path in quotes, such as identity_file = "~/.ssh/id_ed25519"', "")
    known_hosts: str = _key('a path in quotes, such as known_hosts = "~/.ssh/known_hosts"', "")
    """The only file of accepted host keys for this host; if it is empty, ssh's usual files
    count."""
    jump: str = _key(
        '[user@]host[:port] in quotes, such as jump = "ada@gateway:22"',
        "",
        text_like(JUMPS),
    )
    """Several are joined by commas, as in ssh's ProxyJump."""
    proxy_command: str = _key('a command in quotes, such as proxy_command = "nc -X 5 %h %p"', "")
    python: str = _key(
        'a command or path in quotes, such as python = "/opt/venv/bin/python3"', "python3"
    )
    workdir: str = _key('a path in quotes, such as workdir = "~/.rankboard"', "~/.rankboard")
    cwd: str = _key('a path on the host in quotes, such as cwd = "~/project"', "")
    """The folder in which a script works, unless files are uploaded."""
    slots: int = _key(
        f"a whole number from 1 to {SLOTS}, such as slots = 1", 1, whole_number(1, SLOTS)
    )
    threads: int = _key(
        f"a whole number from 0 (as many as its ranks have cores) to {THREADS}, such as "
        "threads = 4",
        0,
        whole_number(0, THREADS),
    )
    interface: str = _key(
        'the name of a network interface in quotes, such as interface = "eth0"', ""
    )
    """Carries the ranks' traffic."""
    master_port: int = _key(
        "a whole number from 0 (any free port) to 65535, such as master_port = 29500",
        0,
        whole_number(0, 65535),
    )
    """Counts on the first host only."""
    timeout: float = _key(
        "a finite number of seconds above 0, such as timeout = 10",
        10.0,
        {"type": "number", "exclusiveMinimum": 0},
    )
    """Seconds that the host has to answer."""
    env: tuple[tuple[str, str], ...] = _key(
        'names and texts in quotes, such as env = { NCCL_DEBUG = "INFO" }',
        (),
        table_of(VARIABLE, VARIABLE_TEXT),
    )
    """Variables in the environment of the ranks."""
    env_from: tuple[str, ...] = _key(
        "names of variables of your own environment in quotes, such as env_from = "
        '["WANDB_API_KEY"]',
        (),
        list_of(VARIABLE),
    )
    """Variables that they have with the launcher's values, which are never shown or recorded."""
    slurm_job: int = _key(
        "the number of your Slurm job, a whole number from 0 (that of the shell) on, such as "
        "slurm_job = 4711",
        0,
        whole_number(0, 2**32 - 1),
    )
    """The job of a host with the transport "slurm", whose name is that of the node."""
    transport: str = _key(
        f"the name of a transport in quotes, one of {', '.join(TRANSPORTS)}",
        SSH,
        one_of(*TRANSPORTS),
    )
    """Names what reaches the host: see `remote.transport`."""
    hosts_file: str = field(default=HOSTS_FILE, compare=False)
    """The file that messages tell the user to change."""

    def __post_init__(self) -> None:
        """Refuse values that are out of bounds. Raises: HostsError."""
        for key in host_keys():
            value = getattr(self, key.name)
            # Texts are checked where the file is read; numbers may also come from flags and from
            # recorded plans.
            is_checked = key.type in ("int", "float") or key.name == "transport"
            if is_checked and not fits_schema(value, key.metadata["schema"]):
                problem = f"{self.name!r}: {key.name} = {value!r}: write {key.metadata['write']}"
                raise HostsError(problem)
        for _, problem in find_unseen(vars(self)):
            raise HostsError(problem)


def host_keys() -> tuple[Field[Any], ...]:
    """Return the fields of a host that are keys of hosts.toml."""
    return tuple(key for key in fields(Host) if key.metadata)


def unseen(character: str) -> str:
    """Say what is wrong with a name that has a character which cannot be seen."""
    return f"it has {character}, which cannot be seen: write plain text"


def find_unseen(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with names that would look like others, each with its key."""
    for key in SHOWN:
        unseen_name_character = unseen_character(values.get(key, ""))
        if unseen_name_character:
            yield key, f"{key} = {values[key]!r}: {unseen(unseen_name_character)}"


@dataclass(frozen=True)
class Cluster:
    """The hosts in rank order."""

    name: str
    hosts: tuple[Host, ...]
    remarks: tuple[str, ...] = ()
    """What a user should know of how they were read, one line each."""
    sync: tuple[str, ...] = ()
    """Absolute paths of files and folders of this machine that go to every host before a run."""
    keep: bool | None = None
    """A run goes on without its launcher; None if the file does not say."""
    rules: tuple[Rule, ...] = ()
    """Read the output of scripts."""
    file: str = field(default="", compare=False)
    """The hosts file; "" if there is none."""
    ends: str = ""
    """Why a run on them ends with its launcher, and what to do instead; "" if it need not."""


def is_loopback(address: str) -> bool:
    """Return True if this address leads to the own machine only."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def with_slots(host: Host, slot_count: int) -> Host:
    """Return the host with so many ranks. On a node of a Slurm job they share the cores of the
    job."""
    shared_threads = (
        max(1, host.threads * host.slots // slot_count) if host.slurm_job and host.threads else 0
    )
    return replace(host, slots=slot_count, threads=shared_threads or host.threads)


class HostsError(MistakeError):
    """Mistakes in a hosts file or in a selection of hosts."""


def hosts_option(file: str) -> str:
    """Return what a command that we advise needs to find this hosts file: " --hosts FILE"; "" if
    it finds it by itself."""
    return "" if file == HOSTS_FILE else f" --hosts {shlex.quote(file)}"


def select(
    cluster: Cluster,
    node_count: int | None = None,
    only: Collection[str] = (),
    exclude: Collection[str] = (),
) -> Cluster:
    """Choose the hosts named in `only` (all, if it is empty) and not in `exclude`; of these the
    first `node_count` (None: all).

    The order stays the file's. Raises: HostsError, for names that no host has and for more nodes
    than there are.
    """
    known_names = [host.name for host in cluster.hosts]
    mistakes = []
    for flag_name, given_names in (("--only", only), ("--exclude", exclude)):
        for host_name in given_names:
            if host_name not in known_names:
                suggestion = did_you_mean(host_name, known_names) or "."
                problem_text = (
                    f"no host has this name{suggestion} The hosts are {', '.join(known_names)}"
                )
                mistakes.append(Mistake(flag_name, host_name, problem_text))
    selected_hosts = tuple(
        host
        for host in cluster.hosts
        if (not only or host.name in only) and host.name not in exclude
    )
    if node_count is not None and node_count < 1:
        hint = f"give a number from 1 to {len(selected_hosts)}"
        mistakes.append(Mistake("--num-hosts", str(node_count), hint=hint))
    # With an unknown name, the number of hosts that are left means nothing.
    if node_count and node_count > len(selected_hosts) and not mistakes:
        count_text = (
            "is only 1 host"
            if len(selected_hosts) == 1
            else f"are only {len(selected_hosts)} hosts"
        )
        selected_names = ", ".join(host.name for host in selected_hosts)
        problem_text = f"there {count_text} to choose from"
        mistakes.append(Mistake("--num-hosts", str(node_count), problem_text, selected_names))
    if mistakes:
        raise HostsError(*mistakes)
    return replace(cluster, hosts=selected_hosts[:node_count])
