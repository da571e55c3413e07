"""What becomes of a run when something breaks: real hosts, real ranks, the real command.

Every test breaks one thing in a run of three ranks on three hosts, and proves how that ends: the
verdict, the cause, the exit code, how many processes are left on the hosts, and how many records of
the hosts' journals the run directory lacks. At the end of the test run all of them are printed as a
table. Those that take long are left out unless RANKBOARD_SLOW=1.
"""
