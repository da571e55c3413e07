"""Trains with DistributedDataParallel, on data made up here. Run it with

torchrun --nproc-per-node 2 examples/ddp.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS, BATCH = 200, 64

device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
if device == "cuda":
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
torch.manual_seed(0)
images = torch.randn(4096, 256)
dataset = TensorDataset(images, images[:, :10].argmax(1))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler)
net = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
)
model = DistributedDataParallel(net.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(STEPS):
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
