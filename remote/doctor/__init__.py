"""What the facts of hosts mean for a plan: the checks before a start."""
