"""Hosts, files and ranks that mean harm, and what a launcher does about it.

`host` plays a host by a script: what it says, when, and whether it listens. `launcher` runs the
launcher with bounds on time and memory, in this process or as the real command over a real SSH
connection to such a host. docs/reference/promises.md names the tests of this folder
beside what they hold.
"""
