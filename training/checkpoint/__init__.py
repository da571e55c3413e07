"""Saving checkpoints, and resuming from them."""
