"""Which rank runs where, and with what."""
