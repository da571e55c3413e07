"""Lines that are no metrics, and text of any kind.

`ordinary.txt.gz` has lines that programs print besides their metrics: configurations, reprs of
models, tracebacks, warnings, download bars, output of pip, pytest and Docker, and those of which
other readers of logs make values.
"""

from __future__ import annotations

import gzip
import random
import re
import time
from pathlib import Path

import pytest

from remote.formats.catalog import known_formats
from remote.formats.reader import LogReader
from tests.kit.readings import step

ORDINARY = gzip.decompress((Path(__file__).parent / "ordinary.txt.gz").read_bytes()).decode()
SAMPLES = [sample.text for one in known_formats() for sample in one.samples]
LONG = 100_000


def test_ordinary_lines_tell_nothing() -> None:
    assert len(set(ORDINARY.split("\n"))) >= 5_000
    reader = LogReader()
    assert reader.read_lines(ORDINARY) == []
    assert reader.format == ""


def test_nor_does_each_by_itself() -> None:
    found = [line for line in set(ORDINARY.split("\n")) if LogReader().read(line)]
    assert found == []


def test_ordinary_lines_among_those_of_a_format_tell_nothing() -> None:
    reader = LogReader()
    lines = ORDINARY.split("\n")
    read = [reader.read(f"iter {n}: loss 1.5, time 5.00ms\n{line}") for n, line in enumerate(lines)]
    assert [len(each) for each in read] == [1] * len(lines)
    assert reader.format == "nanoGPT"


def mangled(rng: random.Random) -> str:
    """Samples cut, joined, repeated and salted with control characters."""
    parts = []
    for _ in range(rng.randrange(1, 8)):
        text = rng.choice(SAMPLES)
        begin, end = sorted(rng.randrange(len(text) + 1) for _ in "be")
        parts += [
            text[begin:end],
            rng.choice(["\n", "\r", "\x08", "\x1b[K", "\x1b[2A", " ", "", "9"]),
        ]
    return "".join(parts)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_makes_it_raise(seed: int) -> None:
    rng = random.Random(seed)
    texts = [mangled(rng) for _ in range(60)]
    texts += ["".join(map(chr, rng.choices(range(0x2600), k=200))) for _ in range(5)]
    one, other = LogReader(), LogReader()
    for text in texts:
        assert repr(one.read(text)) == repr(other.read(text))
    assert (one.format, one.unread) == (other.format, other.unread)


@pytest.mark.parametrize("text", [text for text in SAMPLES if "{" in text])
@pytest.mark.parametrize("digits", [19, 309, 400, 5_000])
def test_no_integer_is_too_large(text: str, digits: int) -> None:
    """In place of any value of an object, and of all of them."""
    values = list(re.finditer(r"(?<=[:\[,] )[-\d.e]+|\"[-\d.e]+\"|nan", text))
    large = "9" * digits
    LogReader().read(re.sub(r"(?<=[:\[,] )[-\d.e]+", large, text))
    for found in values:
        LogReader().read(f"{text[: found.start()]}{large}{text[found.end() :]}")


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 3, "loss": 0.5, "lr": LARGE}',
        ':::MLLOG {"key": "train_loss", "value": 0.5, "metadata": {"step": 3, "lr": LARGE}}',
    ],
)
def test_the_other_values_of_a_line_are_read(line: str) -> None:
    for large in ("9" * 400, "-" + "9" * 309):
        assert LogReader().read(line.replace("LARGE", large)) == [step(3, loss=0.5)]


HARD = [
    *("a", "1", " ", "\t", "[", "'a': ", "'a': '1', ", "a=1 ", "a: 1.0 ", "| ", "1,", "- ", "1.1."),
    *("epoch 1 ", "step ", "loss ", "━", "100%|", "1/1 ", "{", '{"a": ', "\x08", "\r", "\x1b["),
    *("Epoch: [0][0/1]\t", "train loss ", "[1]\t", "nan", "1e", "(1) ", "a b ", "\x1b[K", "1:"),
]


def seconds(text: str) -> float:
    began = time.thread_time()
    LogReader().read(text)
    return time.thread_time() - began


@pytest.mark.parametrize("part", HARD, ids=repr)
@pytest.mark.parametrize(
    "head",
    [
        "",
        "step 1 loss 0.5 ",
        "{'epoch': 1.0, 'loss': ",
        "iteration 1/ 2 | elapsed time per iteration (ms): ",
    ],
)
def test_time_is_linear_in_the_length_of_a_line(head: str, part: str) -> None:
    """A line of ten times the length does not take a hundred times as long."""
    short, long = (head + part * (length // len(part)) for length in (LONG // 10, LONG))
    assert any(seconds(long) < 40 * max(seconds(short), 0.002) for _ in range(3))
