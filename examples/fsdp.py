"""FSDP (fully_shard), on made-up images.

torchrun --standalone --nproc-per-node 2 examples/fsdp.py
rankboard --local 2 -- examples/fsdp.py
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--batch-size", type=int, default=64, help="of each rank")
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank = dist.get_rank()
if device == "cuda":
    torch.cuda.set_device(rank % torch.cuda.device_count())
mesh = dist.init_device_mesh(device, (dist.get_world_size(),))
torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(4)]
model = nn.Sequential(*layers, nn.Linear(256, 10)).to(device)
for layer in layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

torch.manual_seed(rank)
for _ in range(args.steps):
    inputs = torch.randn(args.batch_size, 256, device=device)
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, :10].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

if rank == 0:
    print(f"final loss {loss.item():.6f}")
dist.destroy_process_group()
