"""What ranks, agents and the session send each other. Standard library only."""
