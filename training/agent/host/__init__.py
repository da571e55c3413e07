"""Reads what an agent reports about its host: facts, samples, stacks."""
