"""What is known of each host, rank and launcher of a run, and of its training."""
