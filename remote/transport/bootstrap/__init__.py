"""What a host runs before its agent, and the command that carries it there."""
