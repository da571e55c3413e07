"""Data sets, the cache of decoded images, and what is said where files are missing or wrong."""

import gzip
import os
import pickle
import shutil
import struct
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image
from torch import distributed

from tests.kit.forked_ranks import Forker
from tests.kit.rank_calls import call
from tests.kit.training_ranks import ROOT
from training import datasets, registry
from training.datasets import DataError, Images, ImageSelection, _published, imagefolder
from training.job import Job
from training.place import Place

DATA = Path(os.environ.get("RANKBOARD_DATA", ROOT.parent / "shared" / "data"))
real_data = pytest.mark.skipif(
    not (DATA / "MNIST").exists(), reason=f"no real images in {DATA}: set RANKBOARD_DATA"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("RANKBOARD_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would be downloaded is refused at once."""
    monkeypatch.setattr("training.datasets._published.urlopen", refuse)


def refuse(*_: object, **__: object) -> None:
    raise OSError("no route to host")


def idx(values: torch.Tensor) -> bytes:
    head = struct.pack(f">{1 + values.ndim}I", 0x800 + values.ndim, *values.shape)
    return gzip.compress(head + values.numpy().tobytes())


def small_mnist(folder: Path, samples: int = 6, value: int = 9, kind: str = "MNIST") -> Path:
    """A data folder with MNIST's files, but few images and so the wrong checksums."""
    raw = folder / kind / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for split in ("train", "t10k"):
        (raw / f"{split}-images-idx3-ubyte.gz").write_bytes(
            idx(torch.full((samples, 28, 28), value, dtype=torch.uint8))
        )
        (raw / f"{split}-labels-idx1-ubyte.gz").write_bytes(
            idx(torch.arange(samples, dtype=torch.uint8))
        )
    return folder


def small_cifar10(folder: Path) -> Path:
    """A data folder with CIFAR-10's files, two images each."""
    batches = folder / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    for number, name in enumerate((*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")):
        pixels = numpy.arange(2 * 3072, dtype=numpy.uint16).astype(numpy.uint8).reshape(2, 3072)
        (batches / name).write_bytes(pickle.dumps({"data": pixels, "labels": [number, 9]}))
    return folder


def small_fashion_mnist(folder: Path) -> Path:
    return small_mnist(folder, kind="FashionMNIST")


def small_svhn(folder: Path) -> Path:
    """A data folder with SVHN's files, twelve images each."""
    from scipy.io import savemat

    (folder / "svhn").mkdir(parents=True)
    pixels = (
        numpy.arange(12 * 3072, dtype=numpy.uint16)
        .astype(numpy.uint8)
        .reshape(12, 3, 32, 32)
        .transpose(2, 3, 1, 0)
    )
    for split in ("train", "test"):
        file = folder / "svhn" / f"{split}_32x32.mat"
        savemat(
            file,
            {"X": pixels, "y": numpy.array([[*range(1, 11), 10, 1]], dtype=numpy.uint8).T},
            do_compression=True,
        )
    return folder


def picture(file: Path, color: tuple[int, int, int], shape: tuple[int, int] = (12, 8)) -> None:
    """A picture, (width, height), of one colour but for black edges left and right of its centre
    square."""
    file.parent.mkdir(parents=True, exist_ok=True)
    side = min(shape)
    whole = Image.new("RGB", shape)
    whole.paste(color, ((shape[0] - side) // 2, 0, (shape[0] + side) // 2, side))
    whole.save(file)


def pictures(folder: Path, count: int = 2) -> Path:
    """Two classes of `count` pictures each; reddish are roses, bluish are bells, and the brightness
    is a picture's number."""
    for number in range(count):
        picture(folder / "rose" / f"{number}.png", (200 + number, 0, 0))
        picture(folder / "bell" / "more" / f"{number}.PNG", (0, 0, 100 + number))
    return folder


def load(name: str, split: str, folder: Path, verify: bool = True, size: int = 0) -> Images:
    return registry.load_function("datasets", name, "load")(
        ImageSelection(split, folder, verify, size)
    )


def wanted(split: str = "train", **settings: Any) -> Images:
    return datasets.load(Job(**settings), split)


def load_mnist(place: Place, in_turn: bool = False) -> tuple[int, bool]:
    """As a rank, at the same time as the others or after those before it: loads MNIST from the
    working folder, unverified. The sum of its pixels, and whether torchvision was imported."""
    os.environ["RANKBOARD_CACHE"] = f"cache-of-{place.world_size}"
    # The process that it was forked from has imported it for others.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    for turn in range(place.world_size):
        if turn == place.rank or not in_turn:
            both = [load("mnist", split, Path(), verify=False) for split in ("train", "test")]
        distributed.barrier()
    return sum(int(images.pixels.sum()) for images in both), "torchvision" in sys.modules


load_mnist_in_turn = partial(load_mnist, in_turn=True)


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_the_sets_without_files(name: str, tmp_path: Path) -> None:
    for split in ("train", "test"):
        images = load(name, split, tmp_path / "nowhere")
        assert images.pixels.shape == (len(images), images.channels, 32, 32)
        declared = registry.read_constant("datasets", name, "TRAINING")
        assert split == "test" or (len(images), images.channels, images.classes) == declared
        assert (images.pixels.dtype, images.labels.dtype) == (torch.uint8, torch.int64)
        assert images.labels.unique().tolist() == list(range(images.classes))
        assert torch.equal(images.pixels, load(name, split, tmp_path).pixels)
        pixels, labels = images.batch(torch.arange(len(images)), torch.device("cpu"))
        assert abs(pixels.mean()) < 0.05
        assert abs(pixels.std() - 1) < 0.05
        assert torch.equal(labels, images.labels)


def test_digits_are_scikit_learns() -> None:
    original = pytest.importorskip("sklearn.datasets").load_digits()
    train, test = (load("digits", split, Path()) for split in ("train", "test"))
    assert (len(train), len(test)) == (1437, 360)
    assert torch.cat([train.labels, test.labels]).tolist() == original.target.tolist()
    pixels = torch.cat([train.pixels, test.pixels])[:, 0, ::4, ::4]
    assert torch.equal(pixels, torch.from_numpy(original.images * 255 // 16).to(torch.uint8))
    assert torch.equal(pixels, torch.cat([train.pixels, test.pixels])[:, 0, 3::4, 3::4])


def test_mnist_is_padded_to_32(tmp_path: Path) -> None:
    images = load("mnist", "train", small_mnist(tmp_path), verify=False)
    assert images.pixels.shape == (6, 1, 32, 32)
    assert images.pixels[:, :, 2:30, 2:30].unique().tolist() == [9]
    assert images.pixels.sum() == 6 * 28 * 28 * 9
    assert images.labels.tolist() == [0, 1, 2, 3, 4, 5]


def test_mnist_is_read_where_it_was_unpacked(tmp_path: Path) -> None:
    raw = small_mnist(tmp_path) / "MNIST" / "raw"
    for packed in list(raw.iterdir()):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    assert len(load("mnist", "test", tmp_path)) == 6


def test_cifar10_keeps_order_and_channels(tmp_path: Path) -> None:
    small_cifar10(tmp_path)
    train, test = (load("cifar10", split, tmp_path, verify=False) for split in ("train", "test"))
    assert train.pixels.shape == (10, 3, 32, 32)
    assert train.labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert test.labels.tolist() == [5, 9]
    assert train.pixels[0].flatten().tolist() == [value % 256 for value in range(3072)]


def test_fashion_mnist_is_padded_to_32_and_names_its_classes(tmp_path: Path) -> None:
    images = load("fashion_mnist", "train", small_fashion_mnist(tmp_path), verify=False)
    assert images.pixels.shape == (6, 1, 32, 32)
    assert images.labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert (len(images.names), images.names[9]) == (images.classes, "Ankle boot")


def test_svhn_keeps_order_and_channels_and_calls_ten_nought(tmp_path: Path) -> None:
    images = load("svhn", "train", small_svhn(tmp_path), verify=False)
    assert images.pixels.shape == (12, 3, 32, 32)
    assert images.labels.tolist() == [*range(1, 10), 0, 0, 1]
    assert images.pixels[1].flatten().tolist() == [value % 256 for value in range(3072, 6144)]


@pytest.mark.parametrize(
    "content", [b"", b"no mat file" * 20, None], ids=["empty", "rubbish", "cut"]
)
def test_an_unreadable_svhn_file_is_named(content: bytes | None, tmp_path: Path) -> None:
    file = small_svhn(tmp_path) / "svhn" / "train_32x32.mat"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(DataError, match=r"cannot read .*train_32x32\.mat \("):
        load("svhn", "train", tmp_path, verify=False)


def test_without_scipy_svhn_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_svhn(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(
        DataError, match=r"scipy is missing \(.*\): install it with .* -m pip install scipy"
    ):
        load("svhn", "train", tmp_path, verify=False)


def test_an_image_folder_with_splits(tmp_path: Path) -> None:
    pictures(tmp_path / "train", 3)
    pictures(tmp_path / "val", 1)
    name = f"imagefolder:{tmp_path}"
    train, test = (load(name, split, Path()) for split in ("train", "test"))
    assert train.names == test.names == ("bell", "rose")
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 1])
    assert train.pixels.shape == (6, 3, 64, 64)
    assert train.pixels[:3, 2].flatten(1).unique(dim=1).flatten().tolist() == [100, 101, 102]
    assert train.pixels[5, :, 7, 60].tolist() == [202, 0, 0]
    assert train.remarks == ()


def test_an_image_folder_without_splits_keeps_a_tenth_for_testing(tmp_path: Path) -> None:
    name = f"imagefolder:{pictures(tmp_path / 'flowers', 20)}"
    train, test = (load(name, split, Path(), size=8) for split in ("train", "test"))
    assert (len(train), len(test)) == (36, 4)
    shown = {
        (label, *pixels[:, 4, 4].tolist())
        for of in (train, test)
        for label, pixels in zip(of.labels.tolist(), of.pixels, strict=True)
    }
    assert shown == {(0, 0, 0, 100 + n) for n in range(20)} | {
        (1, 200 + n, 0, 0) for n in range(20)
    }
    assert train.remarks == test.remarks
    assert "flowers has no folder train: 4 of its 40 images" in train.remarks[0]
    assert torch.equal(load(name, "test", Path(), size=8).pixels, test.pixels)


def test_an_image_folder_is_decoded_anew_for_another_size_or_another_picture(
    tmp_path: Path, cache: Path
) -> None:
    pictures(tmp_path / "train")
    pictures(tmp_path / "test")
    name = f"imagefolder:{tmp_path}"
    assert load(name, "train", Path(), size=8).pixels.shape == (4, 3, 8, 8)
    assert load(name, "train", Path(), size=16).pixels.shape == (4, 3, 16, 16)
    before = len([*cache.glob("*.pt")])
    assert load(name, "train", Path(), size=16).pixels.shape == (4, 3, 16, 16)
    assert len([*cache.glob("*.pt")]) == before
    picture(tmp_path / "train" / "rose" / "1.png", (77, 0, 0))
    assert load(name, "train", Path(), size=16).pixels[3, 0].unique().tolist() == [77]
    (tmp_path / "train" / "bell" / "z").mkdir()
    (tmp_path / "train" / "rose" / "0.png").rename(tmp_path / "train" / "bell" / "z" / "0.png")
    assert load(name, "train", Path(), size=16).labels.tolist() == [0, 0, 0, 1]
    (tmp_path / "train" / "bell" / "more").rename(tmp_path / "train" / "rose" / "more")
    picture(tmp_path / "train" / "bell" / "0.png", (0, 9, 0))
    assert load(name, "train", Path(), size=16).labels.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(("model", "side"), [("lenet5", 32), ("resnet18", 64)])
def test_images_of_a_folder_have_by_default_a_size_that_the_model_takes(
    model: str, side: int, tmp_path: Path
) -> None:
    job = Job(model=model, dataset=f"imagefolder:{pictures(tmp_path / 'flowers', 3)}")
    assert datasets.load(job, "train").shape == (3, side, side)


def broken(folder: Path) -> None:
    pictures(folder / "test")
    (pictures(folder / "train") / "rose" / "1.png").write_bytes(b"no picture")


def cut(folder: Path) -> None:
    pictures(folder / "test")
    file = pictures(folder / "train") / "rose" / "0.png"
    file.write_bytes(file.read_bytes()[:60])


def several_broken(folder: Path) -> None:
    pictures(folder / "test")
    for number in range(10):
        (pictures(folder / "train") / "rose" / f"b{number}.png").write_bytes(b"no picture")


def floating(folder: Path) -> None:
    pictures(folder / "test")
    Image.new("F", (9, 9), 0.5).save(pictures(folder / "train") / "rose" / "deep.tif")


def empty_class(folder: Path) -> None:
    (pictures(folder) / "tulip").mkdir()


def different_classes(folder: Path) -> None:
    pictures(folder / "train")
    picture(folder / "val" / "rose" / "0.png", (1, 2, 3))


def no_test(folder: Path) -> None:
    pictures(folder / "train")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, r"flowers: No such file or directory: write imagefolder:PATH"),
        (
            several_broken,
            r"cannot read .*/rose/b0\.png \(.*, .*/rose/b7\.png \(.*\) and 2 more: replace or "
            r"remove them",
        ),
        (
            floating,
            r"cannot read .*/rose/deep\.tif \(its pixels are numbers from 0\.5 to 0\.5: save it "
            r"with 8 or 16 bits\)",
        ),
        (Path.mkdir, r"flowers has no folders: put the images of each class into a folder"),
        (broken, r"cannot read .*/rose/1\.png \(.*\): replace or remove it"),
        (cut, r"cannot read .*/rose/0\.png \(.*\): replace or remove it"),
        (empty_class, r"flowers/tulip has no images \(\.jpg .*\): add some, or remove the folder"),
        (different_classes, r"flowers/train or .*flowers/val has no classes bell"),
        (no_test, r"has a folder train, but neither val nor test"),
        (lambda folder: picture(folder / "rose" / "0.png", (1, 1, 1)), r"has only one image"),
    ],
)
def test_mistakes_in_an_image_folder_are_named(make: Any, message: str, tmp_path: Path) -> None:
    make(tmp_path / "flowers")
    with pytest.raises(DataError, match=message):
        load(f"imagefolder:{tmp_path / 'flowers'}", "train", Path())


def test_an_unknown_home_or_a_name_that_cannot_be_asked_for_is_told() -> None:
    with pytest.raises(
        DataError, match="~nobody-at-all/flowers: No such file or directory: write imagefolder:PATH"
    ):
        load("imagefolder:~nobody-at-all/flowers", "train", Path())
    with pytest.raises(DataError, match="x: File name too long: write imagefolder:PATH"):
        load(f"imagefolder:/{'x' * 300}", "train", Path())
    with pytest.raises(
        DataError, match="File name too long: let this user read it, or use --data-dir"
    ):
        load("mnist", "train", Path("/", "x" * 300))


def test_a_full_disk_is_told_as_such(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"imagefolder:{pictures(tmp_path / 'flowers', 3)}"
    before = {*cache.glob("*.pt")}
    load(name, "train", Path())
    (made,) = {*cache.glob("*.pt")} - before
    made.unlink()
    part = made.with_name(f"{made.name}.part")
    part.symlink_to("/dev/full")
    with pytest.raises(
        DataError,
        match=r"cannot be written \(No space left on device\): make room there, or set RANKBOARD_C",
    ):
        load(name, "train", Path())
    assert not part.is_symlink()
    assert len(load(name, "train", Path())) == 5


def test_greys_in_wider_numbers_stay_what_they_are(tmp_path: Path) -> None:
    for name in ("one", "other"):
        for number, mode in enumerate(("I", "F")):
            file = tmp_path / "wide" / name / f"{number}.tif"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new(mode, (9, 9), 128).save(file)
    assert load(
        f"imagefolder:{tmp_path / 'wide'}", "train", Path(), size=8
    ).pixels.unique().tolist() == [128]


def test_a_folder_of_any_name_is_a_class(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    for folder in (os.fsdecode(b"caf\xe9"), "tea"):
        for number in range(2):
            picture(tmp_path / folder / f"{number}.png", (number, 0, 0))
    assert load(f"imagefolder:{tmp_path}", "train", Path()).names == ("caf\\udce9", "tea")


def test_greys_of_sixteen_bits_are_scaled(tmp_path: Path) -> None:
    ramp = torch.arange(256, dtype=torch.int32).view(16, 16) * 257
    for name in ("one", "other"):
        for suffix, mode in (("png", "I;16"), ("tif", "I;16B")):
            data = ramp.numpy().astype(">u2" if mode == "I;16B" else "<u2").tobytes()
            file = tmp_path / "rays" / name / f"{suffix}.{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.frombytes(mode, (16, 16), data).save(file)
    images = [
        load(f"imagefolder:{tmp_path / 'rays'}", split, Path(), size=16)
        for split in ("train", "test")
    ]
    for image in torch.cat([of.pixels for of in images]):
        assert torch.equal(image, (ramp // 257).to(torch.uint8).expand(3, 16, 16))


def test_pictures_of_every_kind_become_three_channels(tmp_path: Path) -> None:
    for mode, suffix in (
        ("L", "jpg"),
        ("RGBA", "png"),
        ("P", "png"),
        ("CMYK", "jpg"),
        ("I;16", "tif"),
        ("1", "bmp"),
    ):
        file = tmp_path / "pictures" / "kind" / f"{mode.replace(';', '')}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, (9, 7)).save(file)
    images = [
        load(f"imagefolder:{tmp_path / 'pictures'}", split, Path(), size=8)
        for split in ("train", "test")
    ]
    assert [of.pixels.shape for of in images] == [(5, 3, 8, 8), (1, 3, 8, 8)]


@pytest.mark.parametrize("limit", [1, 100])
def test_a_limit_takes_a_seeded_subset_of_each_split(limit: int) -> None:
    whole, few = wanted(), wanted(limit=limit)
    assert (few.pixels.shape, few.labels.shape) == ((limit, 1, 32, 32), (limit,))
    assert (few.pixels.dtype, few.labels.dtype) == (torch.uint8, torch.int64)
    place_by_bytes = {image.numpy().tobytes(): at for at, image in enumerate(whole.pixels)}
    places = [place_by_bytes[image.numpy().tobytes()] for image in few.pixels]
    assert len({*places}) == limit
    assert whole.labels[places].tolist() == few.labels.tolist()
    torch.manual_seed(5)
    assert torch.equal(wanted(limit=limit).pixels, few.pixels)
    assert not torch.equal(wanted(limit=limit, seed=7).pixels, few.pixels)
    assert few.remarks == ()
    assert len(wanted("test", limit=limit)) == limit


def test_of_an_image_folder_a_limit_reads_no_more_than_it_takes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"imagefolder:{pictures(tmp_path / 'flowers', 20)}"
    decode, read = imagefolder._decode, list[int]()
    monkeypatch.setattr(
        imagefolder,
        "_decode",
        lambda labels, *rest: read.append(len(labels)) or decode(labels, *rest),
    )
    whole, few = wanted(dataset=name), wanted(dataset=name, limit=5)
    chosen = ImageSelection("train", Path(), limit=5, seed=Job().seed).chosen(len(whole))
    assert torch.equal(few.pixels, whole.pixels[chosen])
    assert few.labels.tolist() == whole.labels[chosen].tolist()
    shutil.rmtree(cache)
    assert torch.equal(wanted(dataset=name, limit=5).pixels, few.pixels)
    assert read == [len(whole), 5, 5], "no more is read than is wanted"
    assert wanted("test", dataset=name, limit=5).remarks[1:] == (
        "--limit 5: all 4 test images are used",
    )


def test_a_limit_beyond_the_set_takes_all_and_says_so() -> None:
    images = wanted("test", limit=361)
    assert torch.equal(images.pixels, wanted("test").pixels)
    assert images.remarks == ("--limit 361: all 360 test images are used",)
    assert wanted("test", limit=360).remarks == ()


@pytest.mark.parametrize("side", [16, 48])
def test_images_are_resized_in_the_batch(side: int) -> None:
    whole, resized = wanted(dataset="synthetic"), wanted(dataset="synthetic", image_size=side)
    assert resized.shape == (3, side, side)
    indices = torch.arange(20)
    pixels, labels = resized.batch(indices, torch.device("cpu"))
    assert torch.equal(labels, whole.labels[:20])
    plain = whole.pixels[:20].float() / 255
    expected = (
        torch.nn.functional.interpolate(plain, (side, side), mode="bilinear", antialias=True)
        .sub(0.5)
        .div(0.24)
    )
    assert torch.allclose(pixels, expected, atol=1e-5)
    assert torch.equal(
        wanted(dataset="synthetic", image_size=32).batch(indices, torch.device("cpu"))[0],
        whole.batch(indices, torch.device("cpu"))[0],
    )


def test_a_batch_is_what_its_indices_say() -> None:
    images = wanted()
    indices = torch.tensor([5, 700, 5, 0])[::2]
    pixels, labels = images.batch(indices, torch.device("cpu"))
    assert torch.allclose(pixels * 0.376 + 0.305, images.pixels[[5, 5]].float() / 255, atol=1e-6)
    assert labels.tolist() == images.labels[[5, 5]].tolist()


def test_no_start_needs_torchvision(forked: Forker, tmp_path: Path) -> None:
    small_mnist(forked.folder)
    total = 2 * 6 * 28 * 28 * 9
    (said,) = call(forked, tmp_path, __name__, {2: ["load_mnist_in_turn"]}).values()
    assert said == [(total, False), (total, False)]


def test_first_starts_at_the_same_time_decode_once_each_file_whole(
    forked: Forker, tmp_path: Path
) -> None:
    small_mnist(forked.folder, samples=2000)
    (said,) = call(forked, tmp_path, __name__, {4: ["load_mnist"]}).values()
    assert [total for total, _ in said] == [2 * 2000 * 28 * 28 * 9] * 4
    cache = forked.folder / "cache-of-4"
    assert sorted(path.suffix for path in cache.iterdir()) == [".lock", ".pt", ".pt"]


def test_a_changed_source_is_decoded_anew(tmp_path: Path) -> None:
    assert load("mnist", "train", small_mnist(tmp_path), verify=False).pixels.max() == 9
    assert load("mnist", "train", small_mnist(tmp_path, value=77), verify=False).pixels.max() == 77


@pytest.mark.parametrize("damage", [b"", b"rubbish", None], ids=["empty", "rubbish", "cut"])
def test_a_damaged_cache_is_made_again(damage: bytes | None, tmp_path: Path, cache: Path) -> None:
    small_mnist(tmp_path)
    load("mnist", "train", tmp_path, verify=False)
    (held,) = cache.glob("*.pt")
    whole = held.read_bytes()
    held.unlink()  # a new file: the mapping above keeps the old one
    held.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert load("mnist", "train", tmp_path, verify=False).pixels.max() == 9
    assert held.stat().st_size == len(whole)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("mnist", small_mnist),
        ("fashion_mnist", small_fashion_mnist),
        ("cifar10", small_cifar10),
        ("svhn", small_svhn),
    ],
)
def test_wrong_checksums_are_refused_even_with_a_cache(name: str, make, tmp_path: Path) -> None:
    make(tmp_path)
    load(name, "train", tmp_path, verify=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=r"does not have the published checksum.*--no-verify-data"):
        load(name, "train", tmp_path)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "train-images-idx3-ubyte.gz"),
        ("fashion_mnist", "train-images-idx3-ubyte.gz"),
        ("cifar10", "cifar-10-python.tar.gz"),
        ("svhn", "train_32x32.mat"),
    ],
)
def test_neither_files_nor_network(name: str, file: str, tmp_path: Path) -> None:
    advice = (
        rf"data set {name} on .*: no {file} in {tmp_path}.*no route to host.*put {file} there, or "
        r"use --data-dir"
    )
    with pytest.raises(DataError, match=advice):
        load(name, "train", tmp_path / "data")
    assert not list(tmp_path.rglob(".incoming-*"))


def test_files_that_are_there_are_not_downloaded_over(tmp_path: Path) -> None:
    raw = small_mnist(tmp_path) / "MNIST" / "raw"
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"no t10k-labels-idx1-ubyte\.gz"):
        load("mnist", "test", tmp_path, verify=False)
    assert len(list(raw.iterdir())) == 3


def test_a_download_lands_whole_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = small_mnist(tmp_path / "mirror") / "MNIST" / "raw"

    def download(name: str, inbox: Path, target: Path, md5: str) -> Path:
        return Path(shutil.copy(source / target.name, inbox))

    monkeypatch.setattr(_published, "download_file", download)
    assert len(load("mnist", "train", tmp_path / "data", verify=False)) == 6
    assert sorted(p.name for p in (tmp_path / "data/MNIST/raw").iterdir()) == sorted(
        p.name for p in source.iterdir()
    )


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    raw = small_mnist(tmp_path) / "MNIST" / "raw"
    (raw / "train-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(
        DataError,
        match=r"cannot read \S*train-images-idx3-ubyte\.gz \(Not a gzipped file.*\): replace or ",
    ):
        load("mnist", "train", tmp_path, verify=False)


@pytest.mark.parametrize("damaged", ["data_batch_3", "data_batch_5"])
def test_of_several_files_only_the_damaged_one_is_named(damaged: str, tmp_path: Path) -> None:
    file = small_cifar10(tmp_path) / "cifar-10-batches-py" / damaged
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError) as refused:
        load("cifar10", "train", tmp_path, verify=False)
    text = str(refused.value)
    assert f"cannot read {file} (" in text
    assert text.endswith("): replace or remove it")
    assert text.count("cifar-10-batches-py") == 1


def test_a_cache_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RANKBOARD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written \(Not a directory\).*RANKBOARD_CACHE"):
        load("mnist", "train", small_mnist(tmp_path), verify=False)


def test_a_run_without_data_is_a_message_and_exit_code_2(forked: Forker, tmp_path: Path) -> None:
    proxies = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    job = Job(dataset="mnist", data_dir=str(tmp_path / "data"))
    with forked.preload(tmp_path, job, world=1, env=proxies) as started:
        assert os.waitstatus_to_exitcode(started.wait()[0]) == 2
    *tried, told = started.err(0).splitlines()
    assert told.startswith("python -m training: error: data set mnist on ")
    assert tried
    assert all(line.startswith("downloading http") for line in tried)
    assert not (tmp_path / "data").exists(), "nothing was made for nothing"


@real_data
def test_the_real_mnist_has_the_published_checksums(cache: Path) -> None:
    images = load("mnist", "test", DATA)
    assert images.pixels.shape == (10_000, 1, 32, 32)
    assert images.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert len(load("mnist", "train", DATA)) == 60_000
    pixels, _ = load("mnist", "train", DATA).batch(torch.arange(6000), torch.device("cpu"))
    assert abs(pixels[:, :, 2:30, 2:30].mean()) < 0.02


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "svhn"])
def test_all_declared_files_are_read_for_one_split_or_the_other(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def note(_: str, __: ImageSelection, files: list[str], *___: object) -> Any:
        read.extend(files)
        return torch.zeros(1, 1, 32, 32), torch.zeros(1)

    monkeypatch.setattr(_published, "load_published", note)
    for module in ("_idx", "cifar10", "svhn"):
        monkeypatch.setattr(f"training.datasets.{module}.load_published", note)
    for split in ("train", "test"):
        load(name, split, Path())
    assert sorted(read) == sorted(registry.read_constant("datasets", name, "FILES"))
