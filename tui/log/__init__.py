"""The log panel and its widgets."""
