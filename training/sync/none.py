"""No synchronisation: ranks do not communicate while they train, so their models differ."""

from __future__ import annotations

from training.sync import SyncMethod

TRAITS = {"exact": False, "settles": False, "own_optimizer": True}


class Method(SyncMethod):
    """Every rank follows its own gradients."""
