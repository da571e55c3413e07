"""Log files of other programs, read for their steps and metrics."""
