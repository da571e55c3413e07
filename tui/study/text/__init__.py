"""A study as printed lines, tables and JSON."""
