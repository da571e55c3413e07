"""A plain PyTorch program, as in a tutorial: VGG-11 with BatchNorm under DistributedDataParallel.
It uses none of our code.

Start it once per rank with torch's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun does:

    torchrun --nproc-per-node 4 bench/parts/reference_ddp.py --data DIR/cifar-10-batches-py

The images are uint8 tensors in memory, selected by index and normalised batch by batch. Layout,
buckets, buffers and optimiser are PyTorch's defaults. Rank 0 prints the seconds per iteration: the
mean over the ranks and all iterations but the first.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

LAYERS = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")
MEAN = torch.tensor([125.3, 123.0, 113.9]).view(3, 1, 1)
STD = torch.tensor([63.0, 62.1, 66.7]).view(3, 1, 1)
BATCH_SIZE = 256
SEED = 42


class VGG11(nn.Module):
    """9,231,114 parameters."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in LAYERS:
            if isinstance(width, int):
                layers += [
                    nn.Conv2d(channels, width, 3, padding=1),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                ]
                channels = width
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """(N, 3, 32, 32) to (N, 10)."""
        logits: torch.Tensor = self.classifier(self.features(pixels).flatten(1))
        return logits


def train(
    pixels: torch.Tensor, labels: torch.Tensor, steps: int, quiet: bool = False
) -> list[float]:
    """Trains a fresh model in the process group that there is: when each step ended, by
    `time.perf_counter`.

    `pixels` (N, 3, 32, 32) uint8, `labels` (N,) int64, the same on all ranks.
    """
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(SEED)
    model = DistributedDataParallel(VGG11())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
    ends = []
    for step in range(steps):
        begin = step * BATCH_SIZE % (len(order) - BATCH_SIZE + 1)
        own = order[begin : begin + BATCH_SIZE][rank::world_size]
        images = (pixels.index_select(0, own).float() - MEAN) / STD
        loss = cross_entropy(model(images), labels.index_select(0, own))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 20 == 0 and not quiet:
            print(f"Rank: {rank} Batch Idx: {step}, Batch Loss: {loss.item():.3f}", flush=True)
        ends.append(time.perf_counter())
    return ends


def load(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """CIFAR-10's training images (50000, 3, 32, 32) uint8 and labels (50000,) int64, from its
    python batches."""
    pixels, labels = [], []
    for number in range(1, 6):
        batch = pickle.loads((folder / f"data_batch_{number}").read_bytes(), encoding="bytes")
        pixels.append(torch.from_numpy(batch[b"data"]).view(-1, 3, 32, 32))
        labels.append(torch.tensor(batch[b"labels"]))
    return torch.cat(pixels), torch.cat(labels)


def main() -> None:
    """One rank."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder cifar-10-batches-py")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    pixels, labels = load(arguments.data)
    distributed.init_process_group("gloo")
    ends = train(pixels, labels, arguments.steps)
    seconds = torch.tensor((ends[-1] - ends[0]) / (len(ends) - 1))
    distributed.all_reduce(seconds)
    if distributed.get_rank() == 0:
        print(f"seconds per iteration: {seconds.item() / distributed.get_world_size():.3f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
