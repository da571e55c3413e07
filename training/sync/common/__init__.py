"""What several sync methods share."""
