"""Everything that travels to a node: the agent that watches a host's ranks, and the training that
one rank does.

Runs alone there with the standard library and torch. The contract modules (`events`, `commands`,
`job`, `registry`) and `agent` import the standard library only, so that the launcher can import
them without torch.
"""
