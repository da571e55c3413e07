"""Parts of the panels of a run."""
