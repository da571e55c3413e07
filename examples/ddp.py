"""DistributedDataParallel, on made-up images.

torchrun --standalone --nproc-per-node 2 examples/ddp.py
rankboard --local 2 -- examples/ddp.py
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--batch-size", type=int, default=64, help="of each rank")
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
if device == "cuda":
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
torch.manual_seed(0)
images = torch.randn(4096, 256)
dataset = TensorDataset(images, images[:, :10].argmax(1))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
net = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
)
model = DistributedDataParallel(net.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)

for step in range(args.steps):
    if step % len(loader) == 0:
        sampler.set_epoch(step // len(loader))
        batches = iter(loader)
    inputs, targets = (part.to(device) for part in next(batches))
    loss = nn.functional.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

if dist.get_rank() == 0:
    print(f"final loss {loss.item():.6f}")
dist.destroy_process_group()
