"""Everything that runs on a host: the agent that watches its ranks, and the training of one rank.

It needs the standard library and torch. The contract modules (`job`, `options`, `traits`,
`registry`, `wire` and others) and `agent` need the standard library only, so the launcher imports
them without torch.
"""
