"""Everything that reaches machines and knows what became of a run. Draws nothing, trains nothing:
no textual, no torch."""
