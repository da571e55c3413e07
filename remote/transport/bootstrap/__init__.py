"""What a host runs before its agent: the command that carries it there, and the code it gets."""
