"""Studies: many runs that answer one question. See docs/studies.md."""
