"""Short programs on all hosts at once: list runs, remove them, set hosts up."""
