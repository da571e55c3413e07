"""The figures of recorded runs as arrays, read from their records, and runs compared."""
