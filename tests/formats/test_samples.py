"""Each format reads its samples, chosen by itself."""

from __future__ import annotations

import math

import pytest

from remote.formats import LogReader, Reading
from remote.formats.catalog import LogFormat, Sample, known_formats

SAMPLES = [(one, sample) for one in known_formats() for sample in one.samples]


def same(one: Reading, other: Reading) -> bool:
    """Equal but for rounding; NaN is equal to NaN."""
    if (one.kind, one.step, one.steps, one.rank) != (
        other.kind,
        other.step,
        other.steps,
        other.rank,
    ):
        return False
    pairs = [(one.epoch, other.epoch)]
    pairs += [(one.values[name], other.values.get(name, math.inf)) for name in one.values]
    return one.values.keys() == other.values.keys() and all(
        math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b)) for a, b in pairs
    )


@pytest.mark.parametrize(
    ("one", "sample"), SAMPLES, ids=[f"{one.name}-{sample.text[:24]!r}" for one, sample in SAMPLES]
)
def test_a_sample_is_read(one: LogFormat, sample: Sample) -> None:
    reader = LogReader()
    read = reader.read(sample.text)
    assert len(read) == len(sample.expected()), read
    for found, wanted in zip(read, sample.expected(), strict=True):
        assert same(found, wanted), f"{found} instead of {wanted}"
    assert reader.format == (one.name if sample.expected() else "")


@pytest.mark.parametrize("one", known_formats(), ids=[one.name for one in known_formats()])
def test_every_format_has_samples(one: LogFormat) -> None:
    assert any(sample.expected() for sample in one.samples)


def test_names_of_formats_differ() -> None:
    assert len({one.name for one in known_formats()}) == len(known_formats())
