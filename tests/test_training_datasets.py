"""Data sets, the cache of decoded images, and what is said where files are missing or wrong."""

import gzip
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from training_ranks import ROOT

from training import registry
from training.datasets import DataError, Images, _download

DATA = Path(os.environ.get("RANKBOARD_DATA", ROOT.parent / "shared" / "data"))
real_data = pytest.mark.skipif(not (DATA / "MNIST").exists(), reason=f"no real images in {DATA}: set RANKBOARD_DATA")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("RANKBOARD_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would be downloaded is refused at once."""
    monkeypatch.setattr("urllib.request.urlopen", refuse)


def refuse(*_: object, **__: object) -> None:
    raise OSError("no route to host")


def idx(values: torch.Tensor) -> bytes:
    head = struct.pack(f">{1 + values.ndim}I", 0x800 + values.ndim, *values.shape)
    return gzip.compress(head + values.numpy().tobytes())


def small_mnist(folder: Path, samples: int = 6, value: int = 9) -> Path:
    """A data folder with MNIST's files, but few images and so the wrong checksums."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for split in ("train", "t10k"):
        (raw / f"{split}-images-idx3-ubyte.gz").write_bytes(idx(torch.full((samples, 28, 28), value, dtype=torch.uint8)))
        (raw / f"{split}-labels-idx1-ubyte.gz").write_bytes(idx(torch.arange(samples, dtype=torch.uint8)))
    return folder


def small_cifar10(folder: Path) -> Path:
    """A data folder with CIFAR-10's files, two images each."""
    batches = folder / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    for number, name in enumerate((*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")):
        pixels = numpy.arange(2 * 3072, dtype=numpy.uint16).astype(numpy.uint8).reshape(2, 3072)
        (batches / name).write_bytes(pickle.dumps({"data": pixels, "labels": [number, 9]}))
    (batches / "batches.meta").write_bytes(pickle.dumps({"label_names": [str(n) for n in range(10)]}))
    return folder


def load(name: str, split: str, folder: Path, verify: bool = True) -> Images:
    return registry.load("datasets", name).load(split, folder, verify)


def in_another_process(folder: Path, cache: Path) -> subprocess.Popen[str]:
    """Loads MNIST unverified, and prints the sum of its pixels and whether torchvision was imported."""
    code = (
        "import sys; from pathlib import Path; from training.datasets import mnist;"
        "images = [mnist.load(split, Path(sys.argv[1]), False) for split in ('train', 'test')];"
        "print(sum(i.pixels.sum().item() for i in images), 'torchvision' in sys.modules)"
    )
    env = os.environ | {"RANKBOARD_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, folder], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)


def answers(*processes: subprocess.Popen[str]) -> list[str]:
    return [process.communicate(timeout=60)[0].strip() for process in processes]


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_the_sets_without_files(name: str, tmp_path: Path) -> None:
    for split in ("train", "test"):
        images = load(name, split, tmp_path / "nowhere")
        assert images.pixels.shape == (len(images), images.channels, 32, 32)
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


def test_a_second_start_needs_no_torchvision(tmp_path: Path, cache: Path) -> None:
    small_mnist(tmp_path)
    (first,) = answers(in_another_process(tmp_path, cache))
    (second,) = answers(in_another_process(tmp_path, cache))
    total = 2 * 6 * 28 * 28 * 9
    assert (first, second) == (f"{total} True", f"{total} False")


def test_first_starts_at_the_same_time_decode_once_each_file_whole(tmp_path: Path, cache: Path) -> None:
    small_mnist(tmp_path, samples=2000)
    said = answers(*(in_another_process(tmp_path, cache) for _ in range(4)))
    total = 2 * 2000 * 28 * 28 * 9
    assert {answer.split()[0] for answer in said} == {str(total)}
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


@pytest.mark.parametrize(("name", "make"), [("mnist", small_mnist), ("cifar10", small_cifar10)])
def test_wrong_checksums_are_refused_even_with_a_cache(name: str, make, tmp_path: Path) -> None:
    make(tmp_path)
    load(name, "train", tmp_path, verify=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=r"does not have the published checksum.*--no-verify-data"):
        load(name, "train", tmp_path)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(("name", "file"), [("mnist", "train-images-idx3-ubyte.gz"), ("cifar10", "cifar-10-python.tar.gz")])
def test_neither_files_nor_network(name: str, file: str, tmp_path: Path) -> None:
    advice = rf"data set {name} on .*: no {file} in {tmp_path}.*no route to host.*put {file} there, or use --data-dir"
    with pytest.raises(DataError, match=advice):
        load(name, "train", tmp_path / "data")
    assert not list(tmp_path.rglob(".incoming-*"))


def test_files_that_are_there_are_not_downloaded_over(tmp_path: Path) -> None:
    raw = small_mnist(tmp_path) / "MNIST" / "raw"
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"no t10k-labels-idx1-ubyte\.gz"):
        load("mnist", "test", tmp_path, verify=False)
    assert len(list(raw.iterdir())) == 3


def test_a_download_lands_whole_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = small_mnist(tmp_path / "mirror") / "MNIST" / "raw"

    def download(name: str, urls: list[str], into: Path, md5: str, home: Path) -> Path:
        file = urls[0].rpartition("/")[2]
        return Path((into / file).write_bytes((source / file).read_bytes()) and into / file)

    monkeypatch.setattr(_download, "download", download)
    assert len(load("mnist", "train", tmp_path / "data", verify=False)) == 6
    assert sorted(p.name for p in (tmp_path / "data/MNIST/raw").iterdir()) == sorted(p.name for p in source.iterdir())


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    raw = small_mnist(tmp_path) / "MNIST" / "raw"
    (raw / "train-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"cannot read .*train-images-idx3-ubyte\.gz.*Not a gzipped file"):
        load("mnist", "train", tmp_path, verify=False)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RANKBOARD_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written \(Not a directory\).*RANKBOARD_CACHE"):
        load("mnist", "train", small_mnist(tmp_path), verify=False)


def test_a_run_without_data_is_a_message_and_exit_code_2(tmp_path: Path) -> None:
    env = os.environ | {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "training", "--dataset", "mnist", "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("python -m training: error: data set mnist on ")
    assert done.stderr.count("\n") == 1


@real_data
def test_the_real_mnist_has_the_published_checksums(cache: Path) -> None:
    images = load("mnist", "test", DATA)
    assert images.pixels.shape == (10_000, 1, 32, 32)
    assert images.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert len(load("mnist", "train", DATA)) == 60_000
    pixels, _ = load("mnist", "train", DATA).batch(torch.arange(6000), torch.device("cpu"))
    assert abs(pixels[:, :, 2:30, 2:30].mean()) < 0.02
