"""Lines that were typed on one node: what in them has to differ from rank to rank."""
