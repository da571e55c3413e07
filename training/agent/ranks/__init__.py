"""Starting the ranks of a host, and listening to them."""
