"""What a report computes from the figures of runs. Pure; draws nothing."""
