"""What several features share; it knows none of them."""
