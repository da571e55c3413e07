"""What scripts and ranks print: log, levels, tracebacks, and the steps that are read from it."""
