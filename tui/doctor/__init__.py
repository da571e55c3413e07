"""The checks before a start, as a screen and as text."""
