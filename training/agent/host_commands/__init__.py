"""Short programs on a host, one per file. `table` lists them."""
