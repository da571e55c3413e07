"""Files that a program writes while it runs: finds them by pattern, and reads what comes."""
