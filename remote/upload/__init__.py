"""Folders to the hosts before a run, and results back after it."""
