"""Two workers that the script starts itself, each a rank of DistributedDataParallel.

python examples/spawn.py
rankboard --local 1 -- examples/spawn.py
"""

import argparse
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank: int, options: argparse.Namespace, port: int) -> None:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", address, rank=rank, world_size=options.workers)
    torch.manual_seed(rank)
    images = torch.randn(4096, 256)
    labels = images[:, :10].argmax(1)
    model = DistributedDataParallel(nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(options.steps):
        chosen = torch.arange(step * 64, step * 64 + 64) % len(images)
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"Rank {rank}, final loss {loss.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(train, (options, port), options.workers)
