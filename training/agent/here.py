"""What the launcher does on its own machine with the code of the agent and the errands: the one
module of theirs that it imports, beside the contracts."""

from training.agent.errands.leftovers import find as orphans
from training.agent.errands.leftovers import finish as end
from training.agent.errands.removal import Refused, alone
from training.agent.errands.removal import finish as finish_removals
from training.agent.errands.removal import rename as begin_removal
from training.agent.errands.run_folders import examine, folders, size
from training.agent.file_tail.file import GrowingFile
from training.agent.host import program as programs
from training.agent.host.facts import gpus, usable_cores
from training.agent.host.needs import look
from training.agent.host.processes import die_with
from training.agent.host.redaction import Redaction
from training.agent.host.system import LINUX, cpu_flags, lacks_bf16

__all__ = [
    "LINUX",
    "GrowingFile",
    "Redaction",
    "Refused",
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
