"""What a recorded run amounts to: its figures as arrays, read from its record. Draws nothing."""
