"""One live run: connections to its hosts, and the decisions about it."""
