"""BatchNorm on several ranks."""
