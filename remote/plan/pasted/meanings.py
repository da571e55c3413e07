"""What the options of a script mean by which it is told its place among the ranks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum


class Meaning(Enum):
    """What the value of an option is."""

    RANK = "rank"
    LOCAL_RANK = "local rank"
    NODE_RANK = "node rank"
    WORLD_SIZE = "world size"
    NODES = "nodes"
    LOCAL_WORLD_SIZE = "ranks of a node"
    MASTER_ADDR = "address of the master"
    MASTER_PORT = "port of the master"
    MASTER_URL = "address and port of the master"


RANK_MEANINGS = (Meaning.RANK, Meaning.NODE_RANK, Meaning.LOCAL_RANK)
SIZE_MEANINGS = (Meaning.WORLD_SIZE, Meaning.NODES)
MASTER_MEANINGS = (Meaning.MASTER_ADDR, Meaning.MASTER_URL)
_NAMES = {
    Meaning.RANK: "rank global_rank world_rank dist_rank process_rank proc_rank worker_rank",
    Meaning.LOCAL_RANK: "local_rank localrank",
    Meaning.NODE_RANK: "node_rank noderank machine_rank host_rank group_rank node_id machine_id",
    Meaning.WORLD_SIZE: "world_size worldsize num_processes nprocs num_ranks size",
    Meaning.NODES: "num_nodes nnodes nodes n_nodes num_machines num_hosts",
    Meaning.LOCAL_WORLD_SIZE: "nproc_per_node procs_per_node processes_per_node ranks_per_node "
    "ngpus_per_node gpus_per_node num_proc local_world_size",
    Meaning.MASTER_ADDR: "master master_ip master_addr master_address master_host master_node",
    Meaning.MASTER_PORT: "master_port port",
    Meaning.MASTER_URL: "init_method dist_url dist_init_method init_url",
}
MEANINGS = {name: meaning for meaning, names in _NAMES.items() for name in names.split()}
"""Well-known names of options, with underscores."""
_AMBIGUOUS_NAMES = ("size",)
"""Names that mean this only as options without which a script does not start."""
_NAMES_IN_SCRIPT = {
    "r": Meaning.RANK,
    "nr": Meaning.NODE_RANK,
    "address": Meaning.MASTER_ADDR,
    "addr": Meaning.MASTER_ADDR,
    "ip": Meaning.MASTER_ADDR,
    "ip_address": Meaning.MASTER_ADDR,
    "server_ip": Meaning.MASTER_ADDR,
}
"""Names that are too short to mean anything, unless the script itself has them for its place."""
_NODE = r"(?:nodes?|machines?|hosts?)"
_HELP = (
    (Meaning.LOCAL_RANK, r"\b(?:local|gpu)[ _-]?rank"),
    (Meaning.NODE_RANK, rf"\b{_NODE}(?:'s)?[ _-](?:rank|id|index|number)\b"),
    (Meaning.NODE_RANK, rf"\brank(?:ing)? (?:of|within|among) (?:the |this )?{_NODE}\b"),
    (Meaning.LOCAL_WORLD_SIZE, rf"\b(?:processes|procs|ranks|gpus) (?:per|on each) {_NODE}\b"),
    (Meaning.NODES, rf"\bnumber of (?:the )?{_NODE}\b"),
    (Meaning.WORLD_SIZE, r"\bworld[ _-]size\b|\bnumber of (?:the )?(?:processes|procs|ranks)\b"),
    (Meaning.RANK, r"\b(?:global |process |worker )rank\b|\brank of (?:the |this )"),
    (Meaning.RANK, r"^rank\b"),
    (Meaning.MASTER_PORT, r"\bmaster\b.*\bport\b|\bport of (?:the )?master\b"),
    (Meaning.MASTER_ADDR, r"\bmaster\b.*\b(?:ip|addr|address|host)\b"),
    (Meaning.MASTER_ADDR, r"\b(?:ip|addr|address) of (?:the )?master\b"),
)
_OTHER_RANK = re.compile(r"lora|low[- ]rank|matri|tensor|decompos", re.IGNORECASE)
"""In the help of an option that has another rank: that of a matrix."""


def normalize(option: str) -> str:
    """Return the name of an option as Python would write it: `node_rank` of `--node-rank`."""
    return option.lstrip("-").lower().replace("-", "_")


def find_meaning(option: str) -> Meaning | None:
    """Return what an option means of which only its name is known; None if it does not tell."""
    name = normalize(option)
    is_telling = option.startswith("--") and name not in _AMBIGUOUS_NAMES
    return MEANINGS.get(name) if is_telling else None


def find_meaning_in_script(
    flags: Iterable[str], dest: str = "", help_text: str = ""
) -> Meaning | None:
    """Return what an option means that a script has itself; None if it is of no rank's place."""
    if _OTHER_RANK.search(help_text):
        return None
    # The longest name says most.
    names = [normalize(name) for name in (*sorted(flags, key=len, reverse=True), dest)]
    for known_names in (MEANINGS, _NAMES_IN_SCRIPT):
        for name in names:
            if name in known_names and name not in _AMBIGUOUS_NAMES:
                return known_names[name]
    for meaning, pattern in _HELP:
        if re.search(pattern, help_text, re.IGNORECASE):
            return meaning
    return None


def find_required_meaning(flags: Sequence[str]) -> Meaning | None:
    """Return what an option of these names means without which a script does not start; None if
    it is of no rank's place."""
    names = [normalize(flag) for flag in flags]
    ambiguous_meanings = [MEANINGS[name] for name in names if name in _AMBIGUOUS_NAMES]
    return find_meaning_in_script(flags) or next(iter(ambiguous_meanings), None)
