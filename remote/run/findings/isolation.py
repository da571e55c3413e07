"""Says that the ranks of a script do not communicate, and what the usual reason is. Pure."""

from __future__ import annotations

from collections import Counter

from remote.run.run_state import RunState
from remote.run.state.script_rank import ScriptRank

_QUESTIONS = {
    "fabric": "does it call Fabric(devices={devices}, num_nodes={hosts}) and fabric.launch()?",
    "lightning": "does its Trainer have devices={devices} and num_nodes={hosts}?",
    "accelerate": "without a GPU, does it have ACCELERATE_USE_CPU=true?",
}
"""What to look at first, by the framework that calls the optimiser."""
_IDLE_GROUP = (
    "the process group is not used: is the model wrapped, as in DistributedDataParallel, or are "
    "its gradients exchanged?"
)
_NO_GROUP = "there is no process group: does it call init_process_group?"


def isolated_ranks(run: RunState) -> list[ScriptRank]:
    """Return all ranks if each was seen to train alone, now or earlier; else none."""
    ranks = run.script_ranks
    return ranks if len(ranks) > 1 and all(rank.isolation for rank in ranks) else []


def describe_isolation(run: RunState) -> str:
    """Return in words that each rank trains alone, and what to look at.

    Such as "each rank trains alone: nothing was exchanged in 20 steps; does its Trainer have
    devices=2 and num_nodes=1?". "" if some rank was not seen to.
    """
    isolation = next((rank.isolation for rank in isolated_ranks(run)), None)
    if not isolation:
        return ""
    ranks_of_host = Counter(slot.host for slot in run.plan.slots)
    question = _QUESTIONS.get(isolation.driver) or (
        _IDLE_GROUP if isolation.has_group else _NO_GROUP
    )
    question = question.format(devices=max(ranks_of_host.values()), hosts=len(ranks_of_host))
    finding = f"nothing was exchanged in {isolation.steps} steps"
    return f"each rank trains alone: {finding}; {question}"
