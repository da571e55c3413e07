"""Launch and watch data-parallel PyTorch training on several machines."""
