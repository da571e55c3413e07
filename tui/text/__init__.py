"""What is printed to a terminal without the dashboard."""
