"""What people print themselves: JSON, dicts of Python, name=value."""

import json
import re
from typing import Any

from remote.formats.format import Format, Names, Sample
from remote.formats.memory import Memory
from remote.formats.names import PLACES, is_outcome
from remote.formats.numbers import NUMBER, number
from remote.formats.reading import Reading, evaluation, step

_DICT_PAIR = re.compile(rf"'([\w/. ()@-]{{1,80}})': (?:tensor\()?({NUMBER})(?![\w.])").findall
_PAIR = re.compile(
    rf"([A-Za-z_][\w/.@-]{{0,63}})(?: {{0,2}}= {{0,2}}|: {{0,4}})({NUMBER})(%?)(?![\w.:/@-])"
).findall
_SPACED = re.compile(
    rf"(?<![\w.])([A-Za-z_][\w/@]{{0,40}}) {{1,4}}({NUMBER})(%?)(?![\w.:/@-])"
).findall
_COUNTER = re.compile(
    r"[\W_]{0,8}(?:rank[= ]\d{1,6}[\s,|]{1,4})?(?:train(?:ing)?[\s:|>-]{1,4})?"
    r"(?P<what>global[_ ]step|train[_ ]step|epoch|iteration|iter|step|it|batch|update)\]?"
    r"[\s:=#\[(]{1,6}(?P<n>\d{1,12})(?:\s{0,4}(?:/|of)\s{0,4}(?P<total>\d{1,12}))?(?![\w.%])",
    re.IGNORECASE,
)


class Objects:
    """The reader of JSON objects and dicts of Python, one a line."""

    open = False

    def __init__(self) -> None:
        self._names = Names()

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        begin = line.find("{", start)
        if begin < 0 or line[begin : begin + 2] not in ("{'", '{"', "{ "):
            return None
        pairs = (
            self._json(line[begin:]) if '"' in line[begin : begin + 3] else _DICT_PAIR(line, begin)
        )
        values: dict[str, float] = {}
        for name, value in pairs:
            known, factor = self._names(name)
            if known and known not in values:
                values[known] = float(value) * factor
        return counted(values, memory)

    def _json(self, text: str) -> list[tuple[str, Any]]:
        try:
            found, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return []
        if not isinstance(found, dict):
            return []
        return [(name, value) for name, value in found.items() if type(value) in (int, float)]


def counted(values: dict[str, float], memory: Memory) -> Reading | None:
    """The reading of values that say a step or an epoch, and what training strives for."""
    if not ("step" in values or "epoch" in values):
        return None
    if not any(name not in PLACES and is_outcome(name) for name in values):
        return None
    return memory.place(None, values)


class KeyValue:
    """The reader of lines that begin with a counter, or with name=value."""

    open = False

    def __init__(self) -> None:
        self._names = Names()

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        place = _COUNTER.match(line, start)
        if place is None:
            return None
        values: dict[str, float] = {}
        for name, value, percent in _PAIR(line, start) or _SPACED(line, start):
            known, factor = self._names(name)
            if known and known not in values:
                values[known] = number(value) * (0.01 if percent else factor)
        what = place["what"].lower()
        if what == "epoch":
            values.setdefault("epoch", float(place["n"]))
        elif what != "batch":
            values.setdefault("step", float(place["n"]))
        return counted(values, memory)


FORMATS = (
    Format(
        "JSON lines",
        ('"step"', '"epoch"', "'step'", "'epoch'"),
        (
            Sample(
                '{"step": 10, "loss": 0.516, "lr": 0.001}',
                [step(10, loss=0.516, lr=0.001)],
            ),
            Sample(
                "{'loss': 0.516, 'val_loss': 0.5113, 'val_accuracy': 0.845, 'step': 10, 'epoch': 0}\r\n",
                [step(10, loss=0.516, val_loss=0.5113, val_accuracy=0.845)],
            ),
        ),
        reader=Objects,
        generic=True,
    ),
    Format(
        "name=value",
        ("step", "Step", "STEP", "poch", "EPOCH", "iter", "Iter"),
        (
            Sample(
                "rank=0 epoch=1 step=50 loss=1.2345 ppl=3.456 lr=1e-4",
                [step(50, epoch=1, loss=1.2345, perplexity=3.456, lr=1e-4)],
            ),
            Sample("iter 18 rmse 12.2614 r2 0.9960", [step(18, rmse=12.2614, r2=0.996)]),
            Sample(
                "epoch=3 val_loss=0.25 val_acc=0.9",
                [evaluation(0, epoch=3, val_loss=0.25, val_accuracy=0.9)],
            ),
        ),
        reader=KeyValue,
        generic=True,
    ),
)
