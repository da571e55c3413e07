"""Checkpoints: saving what a run needs to go on from a step, and going on from it."""

from __future__ import annotations
