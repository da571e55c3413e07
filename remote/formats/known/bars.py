"""Progress bars with metrics behind them."""

import re

from remote.formats.format import Format, Pairs, Sample
from remote.formats.memory import Memory
from remote.formats.names import is_outcome
from remote.formats.reading import EVALUATION, OTHER, Reading, step

UNDERSTOOD = Reading(OTHER, 0, 0.0, {})
"""Of a line that is understood and tells nothing by itself."""
BAR = re.compile(
    r"(?P<desc>[^|\r\n]{0,120}?)\s{0,2}\d{1,3}%\|[^|\r\n]{0,400}\|\s{0,4}(?P<n>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[(?P<elapsed>[\d:]{1,12}|\d{1,4} days?, [\d:]{1,12})<(?P<left>[^,\]]{1,24}), {1,4}"
    r"(?P<rate>[\d.]{1,16}|\?)(?P<unit>it/s|s/it|step/s|s/step|batch/s|s/batch)(?:, (?P<postfix>[^\]\n]{0,4000})|\])"
)
_EPOCH = re.compile(r"[Ee]poch\W{0,4}(\d{1,9})(?:\s{0,2}/\s{0,2}(\d{1,9}))?")
_EVALUATES = re.compile(r"valid|eval|test|predict|sanity", re.IGNORECASE)
_POSTFIX = Pairs(r"([A-Za-z_][^=,\s:]{0,80})[=:] {0,2}<num>(?![\w.:])")


class Bar:
    """The reader of bars of tqdm."""

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        bars = list(BAR.finditer(line))
        if not bars:
            return None
        found = bars[-1]
        values: dict[str, float] = {}
        if found["postfix"]:
            _POSTFIX.read(found["postfix"], values)
        n, total = int(found["n"]), int(found["total"])
        if not any(map(is_outcome, values)):
            if not _EVALUATES.search(found["desc"]) and not found["desc"].strip():
                memory.bar, memory.steps = n, total
            return UNDERSTOOD
        return self._reading(found, values, n, total, memory)

    def _reading(
        self, found: re.Match[str], values: dict[str, float], n: int, total: int, memory: Memory
    ) -> Reading | None:
        if found["rate"] != "?" and float(found["rate"]):
            rate = float(found["rate"])
            values.setdefault("step_seconds", 1 / rate if found["unit"].endswith("/s") else rate)
        kind = EVALUATION if _EVALUATES.search(found["desc"]) else None
        if epoch := _EPOCH.search(found["desc"]):
            if epoch[2]:
                values["epochs"] = float(epoch[2])
            values |= {"epoch": float(epoch[1]), "n": n, "total": total}
        else:
            values |= {"step": n, "steps": total}
        return memory.place(kind, values)


FORMATS = (
    Format(
        "tqdm",
        ("it/s", "s/it", "step/s", "s/step", "batch/s", "s/batch"),
        (
            Sample(
                "Steps:   1%|          | 3/500 [00:48<2:08:43, 15.54s/it, lr=7.5e-7, step_loss=0.00447]",
                [step(3, steps=500, lr=7.5e-7, loss=0.00447, step_seconds=15.54)],
            ),
            Sample(
                "\rtrain:   1%|1         | 1/100 [00:00<00:10, 10.0it/s, loss=0.5]\rtrain:   2%|1   "
                "      | 2/100 [00:00<00:10, 10.0it/s, loss=0.4]",
                [
                    step(1, steps=100, loss=0.5, step_seconds=0.1),
                    step(2, steps=100, loss=0.4, step_seconds=0.1),
                ],
            ),
        ),
        reader=Bar,
        generic=True,
    ),
)
