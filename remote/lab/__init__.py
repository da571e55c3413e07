"""A cluster in a box: hosts that are network namespaces of this machine, with real addresses and
links of a chosen rate.

    spec       what is wanted; pure
    wires      the commands that lay it out and change it; pure
    namespaces one PID namespace that holds a lab's processes, and why the kernel may refuse it
    quota      how much of the cores a host may use
    init       the lab's own first process
    lab        `Lab`, which puts these together

Knows nothing of runs, plans or agents. Linux only.
"""
