"""Short programs on all hosts at once: listing, cleaning, setting up."""
