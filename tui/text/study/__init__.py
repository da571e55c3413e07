"""A study on a terminal: as lines, as a live table, or as JSON."""
