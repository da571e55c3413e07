"""Hugging Face Accelerate, on made-up images. The main process prints the loss.

    torchrun --standalone --nproc-per-node 2 examples/accelerate_loop.py
    rankboard --local 2 -- examples/accelerate_loop.py

On hosts without a GPU, Accelerate needs ACCELERATE_USE_CPU=true. rankboard sets it.
"""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    set_seed(0)
    images = torch.randn(32 * args.steps, 64)
    dataset = TensorDataset(images, images[:, :10].argmax(1))
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.SGD(model.parameters(), lr=0.05),
        DataLoader(dataset, batch_size=16, shuffle=True),
    )
    for step, (inputs, targets) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        if step % 10 == 0:
            mean = accelerator.reduce(loss.detach(), "mean").item()
            accelerator.print(f"step {step}/{len(loader)} loss {mean:.6f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
