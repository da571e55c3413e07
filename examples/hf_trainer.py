"""Hugging Face Trainer: a tiny GPT-2, built from a config, learns made-up text. Downloads nothing.

torchrun --standalone --nproc-per-node 2 examples/hf_trainer.py
rankboard --local 2 -- examples/hf_trainer.py
"""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Counting(Dataset):
    """Sequences that count upwards."""

    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(32) + index) % 64
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    set_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=64, n_layer=2, n_head=2)
    config.bos_token_id = config.eos_token_id = 0
    config.loss_type = "ForCausalLM"
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            per_device_train_batch_size=8,
            max_steps=args.steps,
            logging_steps=5,
            save_strategy="no",
            report_to=[],
            ddp_find_unused_parameters=False,
        )
        Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Counting()).train()


if __name__ == "__main__":
    main()
