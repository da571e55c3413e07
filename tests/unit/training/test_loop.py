"""The loop of a rank that is alone, in this process."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from training import loop, models
from training.datasets import Images
from training.job import Job, JobError
from training.loop import Trainer
from training.place import Place
from training.rendezvous import explain_no_gpu

CPU = torch.device("cpu")
IMAGES = Images(
    torch.zeros(4, 1, 32, 32, dtype=torch.uint8),
    torch.zeros(4, dtype=torch.int64),
    2,
    (0.0,),
    (1.0,),
)


def trainer() -> Trainer:
    return Trainer(Job(batch_size=2), Place(), CPU, IMAGES, IMAGES)


@pytest.mark.parametrize(
    ("gpus", "reasons", "told"),
    [
        (("a", "b"), ("", ""), ""),
        (("", ""), ("", ""), ""),
        (("a", ""), ("", ""), "All ranks train on CPUs: rank 1 has no GPU"),
        (
            ("a", ""),
            ("", "its host has 1 GPU for 2 ranks"),
            "All ranks train on CPUs: on rank 1, its host has 1 GPU for 2 ranks",
        ),
        (
            ("", ""),
            ("torch cannot use its GPU", ""),
            "All ranks train on CPUs: on rank 0, torch cannot use its GPU",
        ),
        (("a", "b", "a"), ("", "", ""), "All ranks train on CPUs: ranks 0 and 2 would share a GPU"),
    ],
)
def test_why_gpus_are_not_used_is_told(
    gpus: tuple[str, ...], reasons: tuple[str, ...], told: str
) -> None:
    assert explain_no_gpu(gpus, reasons) == told


def test_a_frozen_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "build", lambda *_: nn.Linear(2, 2).requires_grad_(False))
    with pytest.raises(JobError, match=r"^--model lenet5: all parameters are frozen"):
        trainer()


def test_who_comes_to_an_evaluation_waits_for_the_others_as_its_method_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group that is made before waits for its members as long as its own patience lasts, and no
    longer."""
    order: list[str] = []
    monkeypatch.setattr(Trainer, "settle", lambda _: order.append("settle"))
    monkeypatch.setattr(Trainer, "patient_group", property(lambda _: order.append("group")))
    monkeypatch.setattr(loop, "emit", lambda _: None)
    trainer().evaluate()
    assert order == ["settle", "group"]
