"""The dashboards: how they start, what they do with keys, how they quit."""
