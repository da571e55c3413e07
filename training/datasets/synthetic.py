"""Synthetic images that a model can learn, to try things without files: noise around one random
pattern per class.

They are the same on every host and in every run: their seed does not depend on the job.
"""

from __future__ import annotations

import torch

from training.datasets import Images, ImageSelection

IMAGE_SIZE = 32
FILES = ()
TRAINING = (4096, 3, 10)
CLASSES = 10
SAMPLES = {"train": TRAINING[0], "test": 1024}
CONTRAST = 40.0
NOISE = 50.0


def load(image_selection: ImageSelection) -> Images:
    """Return 4,096 or 1,024 images of 3x32x32. Reads no file."""
    class_patterns = torch.randn(CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    class_patterns = class_patterns.repeat_interleave(4, 2).repeat_interleave(4, 3)
    sample_count = SAMPLES[image_selection.split]
    # Other seeds than that of the patterns, and one for each split.
    generator = torch.Generator().manual_seed(1 + list(SAMPLES).index(image_selection.split))
    labels = torch.randint(CLASSES, (sample_count,), generator=generator)
    pixels = (
        torch.randn(sample_count, 3, 32, 32, generator=generator)
        .mul_(NOISE)
        .add_(class_patterns[labels], alpha=CONTRAST)
        .add_(127.5)
    )
    return Images(
        pixels.clamp_(0, 255).to(torch.uint8), labels, CLASSES, mean=(0.5,) * 3, std=(0.24,) * 3
    )
