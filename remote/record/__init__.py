"""The directory of a run: its layout, writing and reading it."""
