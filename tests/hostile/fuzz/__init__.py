"""Random records and mutated run directories, by seed: `python -m tests.hostile.fuzz`.

`stories` sends records to a live session and to the state of a recorded run, and shows what comes
of them. `folders` mutates run directories and reads them by all ways. `mistakes` are bugs that the
harness must find. What a case may cost is in `budget`.
"""
