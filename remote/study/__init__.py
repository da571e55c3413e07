"""Studies: many runs that answer one question. See docs/how-to/studies.md."""
