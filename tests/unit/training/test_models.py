"""The models are those of the experiments they are named after, and say so where they cannot take
what they are given."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from tests.kit.forked_ranks import Forker
from tests.kit.training_ranks import ROOT
from training import models, registry
from training.job import Job, JobError

OWN = ("lenet5", "resnet18", "svhn_cnn", "vgg11")


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def count_parameters(name: str, channels: int, classes: int) -> int:
    """The parameters of one of our models, without the trial that it gets for a job."""
    return parameters(registry.load_module("models", name).build(channels, classes))


@pytest.mark.parametrize(
    ("name", "channels", "count"),
    [
        ("vgg11", 3, 9_231_114),
        ("lenet5", 1, 61_706),
        ("svhn_cnn", 3, 53_762),
        ("resnet18", 3, 11_173_962),
    ],
)
def test_parameter_counts(name: str, channels: int, count: int) -> None:
    assert count_parameters(name, channels, 10) == count


@pytest.mark.parametrize("name", OWN)
def test_declared_parameters_hold_for_any_channels_and_classes(name: str) -> None:
    always, per_channel, per_class = registry.read_constant("models", name, "PARAMETERS")
    for channels, classes in ((1, 10), (3, 7)):
        count = count_parameters(name, channels, classes)
        assert count == always + channels * per_channel + classes * per_class


def test_each_file_is_a_model_and_those_of_torchvision_are_a_form() -> None:
    assert {*OWN, "torchvision/NAME"} <= set(registry.list_names("models"))


@pytest.mark.parametrize(
    ("name", "channels"),
    [
        ("lenet5", 3),
        ("svhn_cnn", 1),
        ("resnet18", 1),
        ("vgg11", 4),
        ("torchvision/squeezenet1_1", 4),
    ],
)
def test_a_model_gives_a_logit_per_class(name: str, channels: int) -> None:
    model = models.build(name, (channels, 32, 32), 7)
    assert model.training
    assert model(torch.zeros(2, channels, 32, 32)).shape == (2, 7)


def test_resnet18_is_the_published_one_but_for_its_stem() -> None:
    """With equal weights, and after an equal stem, it gives the same as torchvision's."""
    own, theirs = (
        models.build(name, (3, 32, 32), 10).eval() for name in ("resnet18", "torchvision/resnet18")
    )
    theirs.conv1, theirs.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    ordered = sorted(theirs.state_dict().items(), key=lambda item: "downsample" in item[0])
    by_shape: dict[tuple[bool, torch.Size], list[torch.Tensor]] = {}
    for name, tensor in ordered:
        by_shape.setdefault(("downsample" in name, tensor.shape), []).append(tensor)
    with torch.no_grad():
        for name, tensor in own.state_dict().items():
            tensor.copy_(by_shape["shortcut" in name, tensor.shape].pop(0))
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(own(images), theirs(images), atol=1e-5)


def test_the_trial_leaves_the_model_as_it_was_made() -> None:
    torch.manual_seed(3)
    plain, after = registry.load_module("models", "resnet18").build(3, 10), torch.rand(1)
    torch.manual_seed(3)
    tried = models.build("resnet18", (3, 32, 32), 10)
    assert torch.rand(1) == after
    assert all(
        torch.equal(a, b)
        for a, b in zip(plain.state_dict().values(), tried.state_dict().values(), strict=True)
    )


def test_auxiliary_outputs_are_off() -> None:
    net = models.build("torchvision/googlenet", (3, 64, 64), 5)
    assert net(torch.zeros(2, 3, 64, 64)).shape == (2, 5)


def test_the_first_convolution_is_cut_to_other_channels() -> None:
    torch.manual_seed(1)
    three = models.build("torchvision/resnet18", (3, 32, 32), 10)
    torch.manual_seed(1)
    one = models.build("torchvision/resnet18", (1, 32, 32), 10)
    assert torch.equal(one.conv1.weight, three.conv1.weight[:, :1])
    assert parameters(three) - parameters(one) == 2 * 64 * 7 * 7


@pytest.mark.parametrize(
    ("name", "side", "why"),
    [
        (
            "lenet5",
            64,
            r"--model lenet5 cannot take images of 64x64 \(.*cannot be multiplied.*--image-size",
        ),
        ("vgg11", 16, r"--model vgg11 cannot take images of 16x16 \(.*too small\).*--image-size"),
        (
            "torchvision/alexnet",
            32,
            r"--model torchvision/alexnet cannot take images of 32x32 \(.*--image-size",
        ),
    ],
)
def test_images_of_a_wrong_size_are_refused(name: str, side: int, why: str) -> None:
    with pytest.raises(JobError, match=why):
        models.build(name, (3, side, side), 10)


def test_an_unknown_name_of_torchvision_has_near_ones() -> None:
    with pytest.raises(
        JobError, match=r"torchvision/resnet19: .* no classification model .*\(similar: .*resnet18"
    ) as caught:
        models.build("torchvision/resnet19", (3, 32, 32), 10)
    assert "vgg" not in str(caught.value)
    with pytest.raises(JobError, match="no classification model"):
        models.build("torchvision/fasterrcnn_resnet50_fpn", (3, 32, 32), 10)
    with pytest.raises(JobError, match=r"known: alexnet, .*vit_b_16"):
        models.build("torchvision/xyzxyz", (3, 32, 32), 10)


def test_without_torchvision_its_models_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(
        JobError,
        match=r"--model torchvision/alexnet needs torchvision .*-m pip install torchvision",
    ):
        registry.load_function("models", "torchvision/alexnet", "build")(3, 10)


@pytest.mark.parametrize(
    "name",
    ["torchvision", "torchvision/", "torchvision:resnet18", "torchvision/a b", "torchvision/../x"],
)
def test_a_form_is_kept_to(name: str) -> None:
    with pytest.raises(JobError, match=r"^--model .*: write torchvision/NAME$"):
        Job(model=name)


def test_a_near_name_is_offered() -> None:
    with pytest.raises(
        JobError,
        match=r"^--model resnet: unknown model: did you mean 'resnet18'\? \(known: .*vgg11\)",
    ):
        Job(model="resnet")


def test_a_job_with_a_model_of_torchvision_needs_no_torch() -> None:
    code = (
        "import sys; from training.job import Job; Job(model='torchvision/resnet50', "
        "dataset='imagefolder:/a b');"
        "sys.exit(bool({'torch', 'torchvision'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_rank_that_cannot_make_the_model_exits_with_2(forked: Forker) -> None:
    job = Job(model="torchvision/resnet19", steps=1)
    said = forked.run("no-such-model", job, [None], codes=[2]).err(0)
    assert said.startswith("python -m training: error: --model torchvision/resnet19: ")
    assert said.count("\n") == 1
