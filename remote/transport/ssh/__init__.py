"""Hosts over SSH. Only this package imports paramiko."""
