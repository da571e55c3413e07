"""What the launcher does on its own machine with the code of the agent and the errands: the one
module of theirs that it imports, beside the contracts."""

from training.agent.file_tail.file import GrowingFile
from training.agent.host import program as programs
from training.agent.host.facts import gpus, usable_cores
from training.agent.host.needs import look
from training.agent.host.processes import die_with
from training.agent.host.redaction import Redaction
from training.agent.host.system import LINUX, cpu_flags, lacks_bf16
from training.agent.host_commands.orphans import find as orphans
from training.agent.host_commands.orphans import finish as end
from training.agent.host_commands.removal import RemovalRefused, alone
from training.agent.host_commands.removal import finish as finish_removals
from training.agent.host_commands.removal import rename as begin_removal
from training.agent.host_commands.run_folders import examine, folders, size

__all__ = [
    "LINUX",
    "GrowingFile",
    "Redaction",
    "RemovalRefused",
    "alone",
    "begin_removal",
    "cpu_flags",
    "die_with",
    "end",
    "examine",
    "finish_removals",
    "folders",
    "gpus",
    "lacks_bf16",
    "look",
    "orphans",
    "programs",
    "size",
    "usable_cores",
]
