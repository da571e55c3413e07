"""One study: its screens, lines and tables."""
