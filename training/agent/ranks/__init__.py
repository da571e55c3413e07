"""Starts the ranks of a host, and reads their output."""
