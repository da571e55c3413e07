"""Runs compared: the screen, its text, and the choice of runs."""
