"""Lightning, on made-up images. `devices` times `num_nodes` is the number of ranks.

torchrun --standalone --nproc-per-node 2 examples/lightning_fit.py
rankboard --local 2 -- examples/lightning_fit.py
"""

import argparse
import os

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.net(inputs), targets)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    L.seed_everything(0)
    images = torch.randn(32 * args.steps, 64)
    dataset = TensorDataset(images, images[:, :10].argmax(1))
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="cpu",
        strategy="ddp",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(Classifier(), DataLoader(dataset, batch_size=16, shuffle=True))
    if trainer.is_global_zero:
        print(f"final loss {trainer.callback_metrics['train_loss'].item():.6f}")


if __name__ == "__main__":
    main()
