"""What the records of a run mean: its hosts, ranks, cause and verdict. Pure."""
