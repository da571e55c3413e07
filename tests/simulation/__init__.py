"""A simulator: real decisions of launchers and agents, on simulated hosts, from one seed."""
