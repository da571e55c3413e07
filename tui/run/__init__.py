"""One run: its screens, panels, printed lines, tables and JSON."""
