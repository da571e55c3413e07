"""What an agent reads from its host: facts, samples, stacks."""
