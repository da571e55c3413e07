"""Files on their way from one machine to another: what both ends share."""
