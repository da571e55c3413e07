"""Lines read by their shape are read as line by line."""

from __future__ import annotations

import pickle
import random
import re

import pytest

from remote.formats import LogReader
from remote.formats.known import ALL
from remote.formats.shapes import FIRST, Shapes

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")
MANY = 60
TRIED = 300
"""Changed lines for each line of a sample."""
ODD = (
    *"0123456789 .,:/|-+%eE'\"=[](){}@_x",
    "nan",
    "inf",
    "1.",
    ".5",
    "1e5",
    "1e99999",
    "٣",
    "  ",
    "\t",
)
LINES = [
    (one, line)
    for one in ALL
    for sample in one.samples
    for line in re.split(r"[\r\n]+", sample.text)
    if line.strip()
]


def number(chance: random.Random, before: str) -> str:
    """A number as a program may print it in place of another."""
    digits = "".join(chance.choices("0123456789", k=chance.choice((1, 1, 2, 3, 4, 7, 17, 19, 31))))
    return chance.choice(
        (
            *(digits, f"{digits}.{digits[:4]}", f"-{digits[:3]}", f"{digits[:1]}.5e-0{digits[:1]}"),
            *(
                "nan",
                "inf",
                "-inf",
                f"{digits}.",
                f"{digits}%",
                "1,234",
                f"{digits[:2]}.{digits}.1",
            ),
            *("".join(chance.choice("0123456789") if c.isdigit() else c for c in before),) * 12,
        )
    )


def counted(chance: random.Random, line: str) -> str:
    """The line with other digits."""
    return re.sub(r"\d", lambda _: chance.choice("0123456789"), line)


def changed(chance: random.Random, line: str) -> str:
    """The line with other numbers, most often, or with odd characters."""
    if chance.random() < 0.5:
        return counted(chance, line)
    share = chance.choice((0.1, 0.5, 1.0))
    line = NUMBER.sub(
        lambda found: number(chance, found[0]) if chance.random() < share else found[0], line
    )
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        place = chance.randrange(len(line) + 1)
        line = line[:place] + chance.choice(ODD) + line[place + chance.choice((0, 1, 1, 3)) :]
    return line


def warm(line: str) -> LogReader:
    """A reader that has read a line so often that it knows its shape, if it has one."""
    reader = LogReader()
    for _ in range(2):
        reader.read("\n".join([line] * MANY))
    return reader


def compare(seed: int, tried: int) -> tuple[int, int]:
    """Read changed lines with and without shapes. Returns how many, and how many had one."""
    chance = random.Random(seed)
    count = met = 0
    for _, line in LINES:
        reader = warm(line)
        if not reader._shapes:
            continue
        plain = pickle.loads(pickle.dumps(reader))
        for _ in range(tried):
            text = changed(chance, line)
            met += len(reader._shapes.hits(text))
            count += 1
            by_shape, by_line = reader.read(text), plain.read(text)
            assert repr(by_shape) == repr(by_line), (line, text)
            assert (reader.format, reader.unread) == (plain.format, plain.unread), (line, text)
            assert repr(reader._memory) == repr(plain._memory), (line, text)
            if not reader._shapes:  # another format took over
                break
    return count, met


@pytest.mark.parametrize("seed", range(4))
def test_lines_are_read_alike_with_and_without_shapes(seed: int) -> None:
    count, met = compare(seed, TRIED // 4)
    assert count > 20 * TRIED
    assert met > count // 3


@pytest.mark.parametrize("name", ["nanoGPT", "Hugging Face Trainer", "Megatron-LM", "name=value"])
def test_texts_are_read_alike_with_and_without_shapes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of lines of several shapes, with others between them."""
    chance = random.Random(1)
    lines = [line for one, line in LINES if one.name == name]
    texts = []
    for _ in range(30):
        some = [chance.choice((*lines, *lines, "it took 1.5")) for _ in range(chance.randrange(90))]
        texts.append("\n".join(counted(chance, line) for line in some))
    reader = LogReader()
    read = [repr(reader.read(text)) for text in texts]
    assert reader._shapes
    monkeypatch.setattr(Shapes, "learn", lambda *_: None)
    plain = LogReader()
    assert [repr(plain.read(text)) for text in texts] == read
    assert reader.unread == plain.unread


def test_a_name_with_other_digits_has_another_shape() -> None:
    line = "step=1 fold_{}=0.5 loss=0.25"
    reader = warm(line.format(1))
    (reading,) = reader.read(line.format(2).replace("step=1", "step=2"))
    assert reading.values == {"fold_2": 0.5, "loss": 0.25}


def test_a_log_whose_lines_always_differ_is_not_learned_for_ever() -> None:
    reader = LogReader()
    for n in range(200):
        word = "".join(chr(97 + int(digit)) for digit in str(n))
        reader.read("\n".join(f"step={n * 20 + k} loss=0.5 of={word}" for k in range(1, 20)))
    assert reader._shapes._made <= FIRST + 1
