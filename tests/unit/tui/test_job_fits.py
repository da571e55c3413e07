"""A job whose parts do not fit each other is refused before a host is asked, by every front end in
the same words."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from training import model_fit, models, registry
from training.job import Job, JobError, help_text

ROOT = Path(__file__).parents[3]
NAMES = (
    "alexnet",
    "convnext_tiny",
    "googlenet",
    "inception_v3",
    "squeezenet1_0",
    "squeezenet1_1",
    "vgg11",
    "vit_b_16",
)


def takes(name: str, side: int) -> bool:
    """Whether the real model takes images of that size; tried without any memory or arithmetic."""
    with torch.device("meta"):
        try:
            models.build(name, (3, side, side), 10)
        except JobError:
            return False
    return True


def fits(**job: object) -> bool:
    try:
        Job(**job).check_world(2)  # type: ignore[arg-type]
    except JobError:
        return False
    return True


@pytest.mark.parametrize(
    "name", ["lenet5", "svhn_cnn", "vgg11", "resnet18", *(f"torchvision/{name}" for name in NAMES)]
)
def test_the_declared_sizes_are_those_that_the_model_takes(name: str) -> None:
    low, high = model_fit.accepted_sides(name)
    for side in {max(1, low - 1), max(1, low), min(high, 300), min(high + 1, 300)}:
        assert fits(model=name, image_size=side) == takes(name, side), side


def test_the_names_of_torchvision_are_known_without_importing_it() -> None:
    from torchvision import models as theirs  # slow to import, and each worker imports this module

    assert model_fit.torchvision_models() == tuple(theirs.list_models(module=theirs))
    Job(model="torchvision/resnet50").check_world(1)
    with pytest.raises(
        JobError, match=r"torchvision/resnet500: .* no classification model .*similar: .*resnet50"
    ):
        Job(model="torchvision/resnet500").check_world(1)


def test_images_of_a_folder_are_brought_to_the_size_that_the_model_takes() -> None:
    def side(model: str, **more: int) -> int:
        return Job(model=model, dataset="imagefolder:photos", **more).image_side  # type: ignore[arg-type]

    assert (side("lenet5"), side("resnet18"), side("torchvision/vit_b_16")) == (32, 64, 224)
    assert side("torchvision/inception_v3") == 75
    assert side("resnet18", image_size=48) == 48
    assert Job(dataset="cifar10").image_side == 32


def test_what_a_module_declares_is_read_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.py").write_text(
        "import nowhere\nIMAGE_SIZES = (8, 9)\nSIDE = open('/no')\nlow = 3\n"
    )
    monkeypatch.setattr(registry, "ROOT", tmp_path)
    assert registry.read_constant("models", "mine", "IMAGE_SIZES") == (8, 9)
    assert registry.read_constant("models", "mine", "SIDE", 5) == 5
    assert registry.read_constant("models", "mine", "low") is None


def test_a_model_may_have_a_learning_rate_of_its_own() -> None:
    assert (
        Job.of({}).lr,
        Job.of({"model": "vgg11"}).lr,
        Job.of({"model": "vgg11", "lr": 0.1}).lr,
    ) == (0.1, 0.01, 0.1)
    for job in (Job(model="vgg11", lr=0.1), Job(model="vgg11", lr=0.01), Job(lr=0.01), Job()):
        _, _, _, *words = shlex.split(job.command_line())
        assert Job.parse(words) == job, "what is left out of the command is its default"
    own = {
        name: lr
        for name in registry.list_names("models")
        if (lr := registry.read_constant("models", name, "LR"))
    }
    assert all(
        f"with {name} the default is {lr:g}" in help_text(Job.__dataclass_fields__["lr"])
        for name, lr in own.items()
    )


MISTAKES = {
    (
        "--model",
        "vgg11",
        "--image-size",
        "64",
    ): "--model vgg11 cannot take images of 64x64: it takes 32x32 to 63x63",
    (
        "--model",
        "torchvision/resnet500",
    ): "--model torchvision/resnet500: torchvision has no classification model",
    ("--batch-size", "1"): "--batch-size 1 is smaller than the 2 ranks that share it",
}


FRONT_ENDS = (("--run",), ("--dry-run",), ("doctor",))
ASK = """
import contextlib, io, json, sys
sys.modules["torch"] = sys.modules["textual"] = None
from tui import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["rankboard", *words]
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            main()
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, told.getvalue()]))
"""


def test_every_front_end_tells_a_mistake_at_once_and_in_the_same_words(tmp_path: Path) -> None:
    """Without torch: none of them has come far enough to need it."""
    commands = [[*way, "--local", "2", *words] for words in MISTAKES for way in FRONT_ENDS]
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    answers = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(answers) == len(commands)
    for number, text in enumerate(MISTAKES.values()):
        ((code, told),) = set(answers[number * len(FRONT_ENDS) :][: len(FRONT_ENDS)])
        assert code == 2
        assert told.startswith(f"rankboard: {text}")
    assert list(tmp_path.iterdir()) == []
