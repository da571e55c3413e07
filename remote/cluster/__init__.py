"""The hosts: hosts.toml and ~/.ssh/config."""
