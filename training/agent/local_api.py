"""What the launcher does on its own machine with the code of the agent: the one module of the agent
that it imports, beside the contracts."""

from training.agent.file_tail.file import GrowingFile
from training.agent.host import program as programs
from training.agent.host.facts import list_gpus, usable_cores
from training.agent.host.needs import check_needs
from training.agent.host.processes import die_with
from training.agent.host.redaction import Redaction
from training.agent.host.system import LINUX, lacks_bf16
from training.agent.host_commands.orphans import end_processes, find_orphans
from training.agent.host_commands.removal import (
    RemovalRefused,
    begin_removal,
    finish_removals,
    hold_lock,
)
from training.agent.host_commands.run_folders import examine, folder_size, list_run_folders

__all__ = [
    "LINUX",
    "GrowingFile",
    "Redaction",
    "RemovalRefused",
    "begin_removal",
    "check_needs",
    "die_with",
    "end_processes",
    "examine",
    "find_orphans",
    "finish_removals",
    "folder_size",
    "hold_lock",
    "lacks_bf16",
    "list_gpus",
    "list_run_folders",
    "programs",
    "usable_cores",
]
