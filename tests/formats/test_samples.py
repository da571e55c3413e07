"""Each format reads its samples, chosen by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote.formats.catalog import LogFormat, Sample, known_formats
from remote.formats.reader import LogReader
from remote.formats.reading import Reading

SAMPLES = [(known, sample) for known in known_formats() for sample in known.samples]


IDS = [f"{known.name}-{sample.text[:24]!r}" for known, sample in SAMPLES]


def assert_same(reading: Reading, expected: Reading) -> None:
    """Compare readings, equal but for rounding; NaN is equal to NaN."""
    values = pytest.approx(expected.values, rel=1e-9, nan_ok=True)
    rounded = replace(expected, epoch=pytest.approx(expected.epoch, rel=1e-9), values=values)
    assert reading == rounded


@pytest.mark.parametrize(("known", "sample"), SAMPLES, ids=IDS)
def test_a_sample_is_read(known: LogFormat, sample: Sample) -> None:
    reader = LogReader()
    readings = reader.read(sample.text)
    expected = sample.expected()
    assert len(readings) == len(expected), readings
    for reading, wanted in zip(readings, expected, strict=True):
        assert_same(reading, wanted)
    assert reader.format == (known.name if expected else "")


@pytest.mark.parametrize("known", known_formats(), ids=lambda known: known.name)
def test_every_format_has_samples(known: LogFormat) -> None:
    assert any(sample.readings for sample in known.samples)


def test_every_pattern_compiles() -> None:
    for known in known_formats():
        for line in known.lines:
            assert line.matcher.regex


def test_names_of_formats_differ() -> None:
    assert len({known.name for known in known_formats()}) == len(known_formats())
