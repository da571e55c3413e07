"""A run in a browser of this machine, read-only: `rankboard serve`.

`server` answers requests, `guard` decides which, `visit` is one visitor's page, and `visitor` the
process that draws for it: the dashboard of `rankboard watch`.
"""
